//! The routers' answers to an announcement (see [`fleet::announcement`]), counted.

/// Counts the routers that are ready and those that hold, by the locks of connections that are there now.
/// Needs PROCESS.
pub(crate) const COUNT_ROUTERS: &str = "SELECT \
     COALESCE(SUM(IS_USED_LOCK(CONCAT('headroom.ready.', id)) = id), 0) AS ready, \
     COALESCE(SUM(IS_USED_LOCK(CONCAT('headroom.holding.', id)) = id), 0) AS holding \
     FROM information_schema.PROCESSLIST";

#[cfg(test)]
mod tests {
    use super::COUNT_ROUTERS;

    #[test]
    fn the_locks_counted_are_those_that_routers_take() {
        for name in [fleet::announcement::ready(7), fleet::announcement::holding(7)] {
            let prefix = name.strip_suffix('7').unwrap();
            assert!(COUNT_ROUTERS.contains(&format!("'{prefix}'")), "{name}");
        }
    }
}
