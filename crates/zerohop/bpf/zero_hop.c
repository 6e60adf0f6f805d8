/* Zero-hop: sends connect() on a listener's address straight to a server.
 *
 * Nothing is decided here. User space writes pages of upcoming picks; connect() takes the next one. What
 * is noticed here at once is a server that fails: its picks then go to the ordinary listener, which can
 * try others. When headroom itself has ended (it stamps `about` several times a second), there is no
 * ordinary listener, and reads take the next pick instead, until `keep_until`. Writes do not: who the
 * primary is may have changed since.
 *
 * Only the kernel's public headers are used. Maps are declared without a definition: the loader makes them
 * (src/layout.rs) and puts their descriptors in. */
#include <linux/types.h>
#include <linux/bpf.h>
#include "layout.h"

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define TCP 6
#define PASS 1
#define TRIES 16
#define GROWN 1000000000ull
#define MAPPED __builtin_bswap32(0xffff)

struct map;
extern struct map about, listeners, active, pages, targets, target_counters, connect_counts, sessions;
extern struct map wakeups, mirrored, pieces, missed, held;

static void *(*lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*update)(void *map, const void *key, const void *value, __u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long (*delete)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static __u64 (*now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u64 (*cookie_of)(void *ctx) = (void *)BPF_FUNC_get_socket_cookie;
static __u64 (*netns_of)(void *ctx) = (void *)BPF_FUNC_get_netns_cookie;
static long (*set_callbacks)(void *ctx, int flags) = (void *)BPF_FUNC_sock_ops_cb_flags_set;
static long (*ring)(void *ring, void *data, __u64 size, __u64 flags) = (void *)BPF_FUNC_ringbuf_output;

#define ADD(counter, n) __sync_fetch_and_add(&(counter), (n))

#include "packet.h"
#include "mirror.h"
#include "hold.h"

/* The target of the next pick, its number in `choice`; 0 where the ordinary listener is to have the
 * connection. `mirror`: of how many sessions one is mirrored. */
INLINE struct target *next(struct about *us, __u32 listener, struct connect_counts *counts, __u64 time,
			   __u32 *choice, __u32 *mirror)
{
	__u32 *side = lookup(&active, &listener);
	if (!side)
		return 0;
	__u32 at = listener * 2 + (*side & 1);
	struct page *page = lookup(&pages, &at);
	if (!page)
		return 0;
	__u32 slots = page->slots, wrap = page->wrap;
	if (slots == 0 || slots > SLOTS || wrap >= slots)
		return 0;
	*mirror = page->mirror;
	int alive = time <= us->alive_until;
	struct target *suspect = 0;
	for (int try = 0; try < TRIES; try++) {
		__u32 n = __sync_fetch_and_add(&page->cursor, 1);
		if (n >= slots)
			n = wrap + (n - slots) % (slots - wrap);
		__u32 number = page->slot[n & (SLOTS - 1)];
		if (number == 0) {
			if (!alive)
				continue;
			ADD(counts->chosen, 1);
			return 0;
		}
		number -= 1;
		struct target *target = lookup(&targets, &number);
		struct target_counters *counters = lookup(&target_counters, &number);
		if (!target || !counters)
			continue;
		if (counters->suspect_until > time && counters->suspect_until > target->healthy_at + us->suspect) {
			if (!alive) {
				/* Better than an address where nobody listens. */
				suspect = target;
				*choice = number;
				continue;
			}
			ADD(counts->suspect, 1);
			return 0;
		}
		*choice = number;
		return target;
	}
	return suspect;
}

/* Whether the socket is bound to an address, which the listener may have to check. */
INLINE int bound(struct bpf_sock_addr *ctx, int v6)
{
	struct bpf_sock *sk = ctx->sk;
	if (!sk)
		return 1;
	if (!v6)
		return sk->src_ip4 != 0;
	return sk->src_ip6[0] || sk->src_ip6[1] || sk->src_ip6[2] || sk->src_ip6[3];
}

/* Whether the socket can reach `target`: not from a loopback address to another host, and not to an IPv4
 * server from a socket that may be for IPv6 alone (IPV6_V6ONLY, which programs cannot ask for). Who dials
 * a mapped address has one for both. */
INLINE int fits(struct bpf_sock_addr *ctx, struct key *dialled, struct target *target, int v6)
{
	struct bpf_sock *sk = ctx->sk;
	if (!v6 && target->ip[2] != MAPPED)
		return 0;
	if (v6 && target->ip[2] == MAPPED && dialled->ip[2] != MAPPED)
		return 0;
	if (!sk || (target->flags & TARGET_LOOPBACK))
		return 1;
	if (!v6)
		return (sk->src_ip4 & __builtin_bswap32(0xff000000)) != __builtin_bswap32(0x7f000000);
	__u32 a = sk->src_ip6[0], b = sk->src_ip6[1], c = sk->src_ip6[2], d = sk->src_ip6[3];
	if (a || b)
		return 1;
	if (c == MAPPED)
		return (d & __builtin_bswap32(0xff000000)) != __builtin_bswap32(0x7f000000);
	return c || d != __builtin_bswap32(1);
}

INLINE struct target *bypass(struct bpf_sock_addr *ctx, struct key *dialled, int v6)
{
	if (ctx->protocol != TCP)
		return 0;
	struct listener *listener = lookup(&listeners, dialled);
	if (!listener)
		return 0;
	__u32 zero = 0, number = listener->number, flags = listener->flags, choice = 0, mirror = 0;
	struct about *us = lookup(&about, &zero);
	struct connect_counts *counts = lookup(&connect_counts, &number);
	__u64 time = now();
	if (!us || !counts || us->keep_until < time || us->netns != netns_of(ctx))
		return 0;
	if ((flags & LISTENER_WRITES) && us->alive_until < time)
		return 0;
	if ((flags & LISTENER_CHECKS) && bound(ctx, v6)) {
		ADD(counts->unfit, 1);
		return 0;
	}
	struct target *target = next(us, number, counts, time, &choice, &mirror);
	if (!target)
		return 0;
	struct session session = { .since = time, .target = choice, .listener = number, .port = dialled->port };
	__builtin_memcpy(session.ip, dialled->ip, sizeof(session.ip));
	__u64 cookie = cookie_of(ctx);
	if (mirror && (counts->bypassed + 1) % mirror == 0 && !update(&mirrored, &cookie, &choice, BPF_ANY))
		session.state = SESSION_MIRRORED;
	if (!fits(ctx, dialled, target, v6) || update(&sessions, &cookie, &session, BPF_ANY)) {
		delete(&mirrored, &cookie);
		ADD(counts->unfit, 1);
		return 0;
	}
	ADD(counts->bypassed, 1);
	return target;
}

SEC("program/connect4") int connect4(struct bpf_sock_addr *ctx)
{
	struct key dialled = { .ip = { 0, 0, MAPPED, ctx->user_ip4 }, .port = ctx->user_port };
	struct target *target = bypass(ctx, &dialled, 0);
	if (target) {
		ctx->user_ip4 = target->ip[3];
		ctx->user_port = target->port;
	}
	return PASS;
}

SEC("program/connect6") int connect6(struct bpf_sock_addr *ctx)
{
	struct key dialled = { .port = ctx->user_port };
	dialled.ip[0] = ctx->user_ip6[0];
	dialled.ip[1] = ctx->user_ip6[1];
	dialled.ip[2] = ctx->user_ip6[2];
	dialled.ip[3] = ctx->user_ip6[3];
	struct target *target = bypass(ctx, &dialled, 1);
	if (target) {
		ctx->user_ip6[0] = target->ip[0];
		ctx->user_ip6[1] = target->ip[1];
		ctx->user_ip6[2] = target->ip[2];
		ctx->user_ip6[3] = target->ip[3];
		ctx->user_port = target->port;
	}
	return PASS;
}

/* The reverse: who asks for the peer of such a socket hears what was dialled. */
SEC("program/getpeername4") int getpeername4(struct bpf_sock_addr *ctx)
{
	__u64 cookie = cookie_of(ctx);
	struct session *session = lookup(&sessions, &cookie);
	if (session && session->ip[2] == MAPPED) {
		ctx->user_ip4 = session->ip[3];
		ctx->user_port = session->port;
	}
	return PASS;
}

SEC("program/getpeername6") int getpeername6(struct bpf_sock_addr *ctx)
{
	__u64 cookie = cookie_of(ctx);
	struct session *session = lookup(&sessions, &cookie);
	if (session) {
		ctx->user_ip6[0] = session->ip[0];
		ctx->user_ip6[1] = session->ip[1];
		ctx->user_ip6[2] = session->ip[2];
		ctx->user_ip6[3] = session->ip[3];
		ctx->user_port = session->port;
	}
	return PASS;
}

/* The client closes its socket: what ends from now on is the client's doing. One that never got under way
 * is forgotten. */
SEC("program/release") int release(struct bpf_sock *sk)
{
	__u64 cookie = cookie_of(sk);
	struct session *session = lookup(&sessions, &cookie);
	if (!session)
		return PASS;
	session->state |= SESSION_LEFT;
	if (sk->state == BPF_TCP_CLOSE) {
		delete(&mirrored, &cookie);
		delete(&sessions, &cookie);
	}
	return PASS;
}

INLINE void mark_suspect(struct target_counters *counters, __u32 number)
{
	__u32 zero = 0;
	struct about *us = lookup(&about, &zero);
	if (!us)
		return;
	counters->suspect_until = now() + us->suspect;
	/* User space looks now, not at its next tick. A ring that is full has woken it already. */
	ring(&wakeups, &number, sizeof(number), BPF_RB_FORCE_WAKEUP);
}

INLINE void changed(struct bpf_sock_ops *ctx, struct session *session, __u64 cookie, __u32 from, __u32 to)
{
	__u32 number = session->target;
	struct target *target = lookup(&targets, &number);
	struct target_counters *counters = lookup(&target_counters, &number);
	if (!target || !counters)
		return;
	if (to == BPF_TCP_ESTABLISHED) {
		session->state |= SESSION_OPEN;
		ADD(counters->opened, 1);
		if (session->state & SESSION_MIRRORED)
			tell(cookie, PIECE_BEGINS, ctx->snd_nxt, ctx->rcv_nxt, number);
	} else if (from == BPF_TCP_SYN_SENT) {
		ADD(counters->refused, 1);
		mark_suspect(counters, number);
	} else if (from == BPF_TCP_ESTABLISHED && (session->state & SESSION_OPEN)) {
		session->state |= SESSION_ENDED;
		ADD(counters->ended, 1);
		if (!(session->state & SESSION_LEFT) && (to == BPF_TCP_CLOSE_WAIT || to == BPF_TCP_CLOSE)) {
			ADD(counters->lost, 1);
			/* A reset always means something. A close does on a session of some age; young ones may be those of
			 * applications that connect for each request, say goodbye, and let the server close. */
			int grown = now() - session->since > GROWN;
			if (to == BPF_TCP_CLOSE || (grown && !(target->flags & TARGET_CLOSES_MEAN_NOTHING)))
				mark_suspect(counters, number);
		}
	}
	if (to == BPF_TCP_CLOSE) {
		ADD(counters->to_server, ctx->bytes_acked);
		ADD(counters->to_client, ctx->bytes_received);
		if (session->state & SESSION_MIRRORED) {
			delete(&mirrored, &cookie);
			tell(cookie, PIECE_ENDS, 0, 0, 0);
		}
		delete(&sessions, &cookie);
	}
}

SEC("program/sockops") int sockops(struct bpf_sock_ops *ctx)
{
	__u32 op = ctx->op;
	if (op != BPF_SOCK_OPS_TCP_CONNECT_CB && op != BPF_SOCK_OPS_STATE_CB && op != BPF_SOCK_OPS_RTO_CB)
		return PASS;
	__u64 cookie = cookie_of(ctx);
	struct session *session = lookup(&sessions, &cookie);
	if (!session)
		return PASS;
	if (op == BPF_SOCK_OPS_TCP_CONNECT_CB) {
		/* Others on this cgroup may want callbacks too. */
		int flags = ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG;
		set_callbacks(ctx, flags);
	} else if (op == BPF_SOCK_OPS_STATE_CB) {
		changed(ctx, session, cookie, ctx->args[0], ctx->args[1]);
	} else if (ctx->state == BPF_TCP_SYN_SENT) {
		__u32 number = session->target;
		struct target_counters *counters = lookup(&target_counters, &number);
		if (counters) {
			ADD(counters->hung, 1);
			mark_suspect(counters, number);
		}
	}
	return PASS;
}
