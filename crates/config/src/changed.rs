//! What a reload changed, for the log and the status page.

use crate::Config;

/// What changed between two configurations that the router does not report itself.
pub fn changed(before: &Config, after: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    let (a, b) = (&before.fleet, &after.fleet);
    let mut note = |differs: bool, what: &str| {
        if differs {
            notes.push(format!("{what} changed"));
        }
    };
    note(a.seeds != b.seeds, "seeds");
    note(a.credentials != b.credentials, "credentials");
    note(a.zones != b.zones || a.zones_by_round_trip != b.zones_by_round_trip, "zones");
    note(a.own_zone != b.own_zone, "own zone");
    note(a.servers != b.servers, "rules for servers");
    note(a.address_map != b.address_map, "address map");
    note(
        (a.interval, a.deadline, a.discover, a.asking) != (b.interval, b.deadline, b.discover, b.asking)
            || a.discover_within != b.discover_within,
        "how the fleet is asked",
    );
    note(before.admin != after.admin, "admin address");
    note(before.admin_access != after.admin_access, "names and cache of the admin address");
    note(before.objectives != after.objectives, "objectives");
    note(before.webhook != after.webhook, "webhook");
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matcher;

    #[test]
    fn what_may_be_asked_of_whom_is_told_like_everything_else_that_changed() {
        let before = Config::bare(vec!["db1".parse().unwrap()], Vec::new());
        assert!(changed(&before, &before).is_empty());
        let mut after = before.clone();
        after.fleet.discover_within = Some(vec![Matcher::Name("*.db.internal".to_owned())]);
        assert_eq!(changed(&before, &after), ["how the fleet is asked changed"]);
        let mut after = before.clone();
        after.fleet.asking.statements_per_second = 20;
        assert_eq!(changed(&before, &after), ["how the fleet is asked changed"]);
    }
}
