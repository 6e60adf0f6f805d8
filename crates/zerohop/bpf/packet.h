/* Where a packet's TCP payload is. */

#define SYN 2

static long (*load)(const void *packet, __u32 at, void *to, __u32 length) = (void *)BPF_FUNC_skb_load_bytes;

struct payload {
	__u32 at;
	__u32 length;       /* 0 for acknowledgements, resets and the like */
	__u32 seq;
};

/* 0 for a packet that cannot be read. */
INLINE int payload_of(struct __sk_buff *packet, struct payload *found)
{
	__u8 ip[20], tcp[20];
	if (load(packet, 0, ip, sizeof(ip)))
		return 0;
	__u32 head = 0, whole = 0;
	if (ip[0] >> 4 == 4 && ip[9] == TCP) {
		head = (ip[0] & 15) * 4;
		whole = ip[2] << 8 | ip[3];
	} else if (ip[0] >> 4 == 6) {
		__u8 protocol = ip[6], more[2];
		head = 40;
		whole = ip[4] << 8 | ip[5];
		if (whole)
			whole += head;
		/* Hop-by-hop options, of packets of more than 64 KiB for instance. */
		if (protocol == 0 && !load(packet, head, more, sizeof(more))) {
			protocol = more[0];
			head += (more[1] + 1) * 8;
		}
		if (protocol != TCP)
			return 0;
	} else {
		return 0;
	}
	/* Such packets say 0; what is beyond the length is padding. */
	if (whole == 0 || whole > packet->len)
		whole = packet->len;
	if (load(packet, head, tcp, sizeof(tcp)))
		return 0;
	found->at = head + (tcp[12] >> 4) * 4;
	found->length = found->at < whole && !(tcp[13] & SYN) ? whole - found->at : 0;
	found->seq = (__u32)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7];
	return 1;
}
