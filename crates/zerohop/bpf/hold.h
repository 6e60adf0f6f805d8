/* Hold: while user space looks whether a session may be closed, nothing that its client sends leaves the
 * host.
 *
 * A dropped packet stays in the socket's queue. If the session is then closed, the server has never seen
 * it; if not, TCP sends it again. Packets without data pass: among them is the reset that closes the
 * session at the server. */

#define DROP 0

SEC("program/hold") int hold(struct __sk_buff *packet)
{
	__u64 cookie = cookie_of(packet);
	struct held *entry = lookup(&held, &cookie);
	if (!entry || entry->until < now())
		return PASS;
	struct payload found;
	if (payload_of(packet, &found) && found.length == 0)
		return PASS;
	ADD(entry->dropped, 1);
	return DROP;
}
