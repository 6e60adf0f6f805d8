/* Mirror: what passes on chosen sessions is told to user space through a ring, as the bytes left and came
 * at the client's host.
 *
 * Pieces are packets as the kernel handles them, so one may come twice or out of order; each has its
 * sequence number, and user space puts them in order. Nothing waits for user space: what the ring has no
 * room for is counted and lost.
 *
 * Nobody is woken for a piece. User space looks by itself every few milliseconds, and is woken when the
 * ring fills. */

#define WAKE_AT (PIECES_SIZE / 8)
/* Pieces of one packet, at most. */
#define CHUNKS 36
#define LARGEST 16384
#define MOST 0xfffff    /* more than the largest packet has */

static void *(*reserve)(void *ring, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*submit)(void *piece, __u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static __u64 (*query)(void *ring, __u64 flags) = (void *)BPF_FUNC_ringbuf_query;

INLINE __u64 wake(void)
{
	return query(&pieces, BPF_RB_AVAIL_DATA) > WAKE_AT ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

INLINE void miss(void)
{
	__u32 zero = 0;
	__u64 *count = lookup(&missed, &zero);
	if (count)
		ADD(*count, 1);
}

INLINE void tell(__u64 cookie, __u32 kind, __u32 seq, __u32 other, __u32 length)
{
	struct piece *piece = reserve(&pieces, sizeof(*piece), 0);
	if (!piece)
		return miss();
	*piece = (struct piece){ cookie, now(), kind, seq, other, length };
	submit(piece, wake());
}

/* A record's size must be known to the verifier, so there are a few sizes; a copy is made only of what is
 * there. */
#define COPY(size)                                                                                      \
	INLINE int copy_##size(struct __sk_buff *packet, struct piece *head, __u32 at, __u32 length)    \
	{                                                                                               \
		struct piece *piece = reserve(&pieces, sizeof(*piece) + size, 0);                       \
		if (!piece) {                                                                           \
			miss();                                                                         \
			return 0;                                                                       \
		}                                                                                       \
		*piece = *head;                                                                         \
		asm volatile("" : "+r"(length));                                                        \
		if (length == 0 || length > size || load(packet, at, piece + 1, length))                \
			piece->length = 0;                                                              \
		submit(piece, wake());                                                                  \
		return 1;                                                                               \
	}
COPY(256)
COPY(1024)
COPY(4096)
COPY(16384)

INLINE int mirror(struct __sk_buff *packet, __u32 kind)
{
	__u64 cookie = cookie_of(packet);
	if (!lookup(&mirrored, &cookie))
		return PASS;
	struct payload found;
	if (!payload_of(packet, &found) || found.length == 0)
		return PASS;
	__u32 at = found.at, left = found.length;
	struct piece piece = { .cookie = cookie, .time = now(), .kind = kind, .seq = found.seq };
	for (int chunk = 0; chunk < CHUNKS && left > LARGEST; chunk++) {
		piece.length = LARGEST;
		if (!copy_16384(packet, &piece, at, LARGEST))
			return PASS;
		/* The masks change nothing, and let the verifier see that one turn is like the other. */
		at = (at + LARGEST) & MOST;
		left = (left - LARGEST) & MOST;
		piece.seq += LARGEST;
	}
	piece.length = left;
	if (left <= 256)
		copy_256(packet, &piece, at, left);
	else if (left <= 1024)
		copy_1024(packet, &piece, at, left);
	else if (left <= 4096)
		copy_4096(packet, &piece, at, left);
	else
		copy_16384(packet, &piece, at, left);
	return PASS;
}

SEC("program/egress") int egress(struct __sk_buff *packet)
{
	return mirror(packet, PIECE_FROM_CLIENT);
}

SEC("program/ingress") int ingress(struct __sk_buff *packet)
{
	return mirror(packet, PIECE_FROM_SERVER);
}
