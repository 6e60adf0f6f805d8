/* What the programs and src/layout.rs agree on, byte for byte. Any change here changes LAYOUT there: maps
 * that an older headroom pinned are then left alone, and new ones are made. */

#define SLOTS 256       /* picks in a page */
#define LISTENERS 64    /* listener numbers */
#define TARGETS 1024    /* (listener, server) numbers */
#define PIECES_SIZE (4 << 20) /* bytes of the ring of pieces */

/* Addresses are IPv6, IPv4 ones mapped into it; ports stand in network order in the lower half. */
struct key {
	__u32 ip[4];
	__u32 port;
};

/* The one entry of `about`: what holds for all listeners. Times are CLOCK_MONOTONIC, ns. */
struct about {
	__u64 alive_until;  /* headroom has spoken lately: until then the ordinary listener is there */
	__u64 keep_until;   /* until then connections bypass although headroom has ended */
	__u64 netns;        /* cookie of the network namespace in which the listeners are */
	__u64 suspect;      /* how long a server that failed a connection is suspect, ns */
	__u64 owner;        /* random, of the process that writes: process ids are the same in every container */
	__u32 process;      /* its id, for people */
	__u32 layout;
	char name[96];      /* for people */
};

#define LISTENER_WRITES 1 /* bypassed only while headroom speaks: afterwards nobody knows the primary */
#define LISTENER_CHECKS 2 /* it has a list of clients: sockets bound to an address are left to it */

/* A listener, by the address that it serves. */
struct listener {
	__u32 number;
	__u32 flags;
};

/* Upcoming picks of a listener. A slot is a target's number plus one; 0 is the ordinary listener. */
struct page {
	__u32 cursor;       /* picks taken, counted by the kernel */
	__u32 slots;        /* slots in use, at most SLOTS */
	__u32 wrap;         /* after the last slot it goes on here */
	__u32 mirror;       /* one in this many sessions is mirrored; 0 is none */
	__u32 slot[SLOTS];
};

#define TARGET_LOOPBACK 1     /* its address is a loopback one */
#define TARGET_CLOSES_MEAN_NOTHING 2 /* sessions that the server ends first are usual here */

struct target {
	__u32 ip[4];
	__u32 port;
	__u32 listener;
	__u32 flags;
	__u32 spare;
	__u64 healthy_at;   /* it was healthy then, says user space: it is not suspect for what was before */
};

/* Written by the kernel alone. */
struct target_counters {
	__u64 suspect_until;
	__u64 opened;
	__u64 ended;        /* of those opened */
	__u64 refused;      /* connections that failed before they were open */
	__u64 hung;         /* connection attempts unanswered for a second */
	__u64 lost;         /* of those ended, by the server first */
	__u64 to_server;    /* bytes of sessions that are over */
	__u64 to_client;
};

/* What became of connect() calls on a listener, by the kernel alone. */
struct connect_counts {
	__u64 bypassed;     /* sent straight to a server */
	__u64 chosen;       /* left to the ordinary listener by an empty slot */
	__u64 suspect;      /* left to it because the picked server was suspect */
	__u64 unfit;        /* left to it: no room, or the socket cannot reach the server's address */
};

#define SESSION_OPEN 1
#define SESSION_ENDED 2
#define SESSION_LEFT 4  /* the client has closed it */
#define SESSION_MIRRORED 8 /* its beginning was told, and its end shall be */

struct session {
	__u64 since;
	__u32 target;
	__u32 listener;
	__u32 ip[4];        /* what the client dialled */
	__u32 port;
	__u32 state;
};

/* A session whose data is held back while user space looks whether it may be closed. */
struct held {
	__u64 until;        /* CLOCK_MONOTONIC, ns; afterwards packets pass, should user space have died */
	__u64 dropped;      /* packets with data that were dropped */
};

#define PIECE_BEGINS 0      /* seq: of the client's first byte; other: of the server's; length: the target */
#define PIECE_FROM_CLIENT 1 /* seq: of its first byte; length: bytes that follow */
#define PIECE_FROM_SERVER 2
#define PIECE_ENDS 3

/* Something of a mirrored session, told through the ring `pieces`. */
struct piece {
	__u64 cookie;
	__u64 time;         /* CLOCK_MONOTONIC, ns */
	__u32 kind;
	__u32 seq;
	__u32 other;
	__u32 length;
};
