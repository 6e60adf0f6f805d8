//! What the page says in words.

pub(super) const MAP: &str = "Each band is the share of all reads that goes from the application of a zone to a \
    replica. Orange bands cross zones. The figure in a replica is its load relative to the mean of all replicas.";

pub(super) const LATENCY: &str = "(a) is the best that distance allows: the application of each zone reads from its own zone's reader. (b) \
    spreads the sessions of every zone over all replicas. (c) is the same applications with a Headroom router in every zone.";

pub(super) const LOAD: &str = "Replicas a2, a3 and b1; zone c has none. First backup is what HAProxy does with <code>backup</code> \
    servers: a zone without a reader of its own uses the first of the others, and only that one.";

pub(super) const CROSSING: &str = "With less than the least, some replica would carry more than the others.";

pub(super) const SERIES: &str = "Steady traffic from every zone through the routers. The reader is killed with kill -9 and \
    started again; later its links swallow everything in both directions, and then deliver again.";

pub(super) const MOVES: &str = "<code>headroom switchover</code> moves the primary to another server and back, under several times \
    the writes of the other phases. The routers hold new writes for a moment; what was begun ends first. The longest wait \
    is that of the slowest request with writes, from when it was due.";

pub(super) const TABLES: &str = "";

pub(super) const HOW: &str = "<p>The servers are real, with GTID replication. The routers are <code>headroom route</code>, one \
    process for each zone. The applications are a simulator with the endpoints above, on a common driver, with a pool of \
    sessions in each zone; what they count is all that these figures come from. Requests arrive on a schedule that does \
    not wait for earlier ones, and a request's time counts from when it was due. A statement outside a transaction takes \
    the longest-idle session of the pool and gives it back, so every session carries the same (with \
    <code>--pool lifo</code> the one returned last, so most rest). Every phase sends the same \
    number of requests per second, far below what the machine can carry, and the slices of phases that are compared \
    alternate.</p>\n";

pub(super) const LIMITS: &str = "<h3>What is simulated, and what these figures do not say</h3>\n<ul>\n\
    <li>Distance is made in user space by a relay on loopback addresses, for direct connections and for those of the \
    routers alike. Bandwidth is unlimited and nothing is lost.</li>\n\
    <li>Servers, links, routers and applications share the cores of one machine. A router's own work therefore shows \
    more than on a host of its own.</li>\n\
    <li>The first-backup rule and round robin are simulated in the applications' pools, without a proxy's own cost.</li>\n\
    <li>99th percentiles stand on few hundred requests; read them as the slowest few.</li>\n\
    <li>Where sessions are placed decides where statements go; with few sessions in a pool, load is as uneven as whole \
    sessions make it.</li>\n</ul>\n";
