//! Which guest runs on which host, how full that makes each host, and what a host gets done for its price and
//! its power: the inventory as a table, beside what servers and agents say.

use crate::inventory::{Inventory, UnknownDemand};
use crate::words::{figure, for_price, per_unit};
use plan::placement::{self, RESOURCES, Resources};
use serde::Serialize;
use std::fmt::Write;
use term::Table;

/// A host with what runs there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostGuests {
    pub host: String,
    pub zone: String,
    pub guests: Vec<String>,
    /// Share of each ceiling that its guests want, in the order of a demand; `None` where one of them has no
    /// known demand.
    pub wanted: [Option<f64>; 5],
    /// The same of those guests whose demand is known.
    pub wanted_at_least: Resources,
    /// The resource that is wanted most, as far as it is known.
    pub tightest: String,
    /// Work for each unit of its price, where that is known and above 0.
    pub per_price: Option<f64>,
    /// Its price is 0.
    pub free: bool,
    /// Work for each watt, where that is known.
    pub per_watt: Option<f64>,
}

/// The inventory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guests {
    pub hosts: Vec<HostGuests>,
    /// Roles without a host.
    pub nowhere: Vec<String>,
    /// Demands of roles that nobody has written down.
    pub unknown: Vec<UnknownDemand>,
    /// Share of a ceiling that may be used.
    pub fill: f64,
    /// Where it differs from what servers and agents say; `None` when nobody was asked.
    pub differences: Option<Vec<String>>,
}

impl HostGuests {
    /// The share that is wanted most, and its resource.
    fn in_words(&self) -> (String, String) {
        let most = self.wanted_at_least.iter().copied().fold(0.0, f64::max);
        let share = format!("{:.0} %", most * 100.0);
        match self.wanted.iter().all(Option::is_some) {
            true if self.guests.is_empty() => (share, String::new()),
            true => (share, self.tightest.clone()),
            false if most > 0.0 => (format!("at least {share}"), self.tightest.clone()),
            false => ("not known".to_owned(), String::new()),
        }
    }
}

impl Guests {
    /// From an inventory, and what asking has shown.
    pub fn new(inventory: &Inventory, differences: Option<Vec<String>>) -> Self {
        let hosts = inventory.placement_hosts();
        let largest: Resources =
            std::array::from_fn(|k| hosts.iter().map(|host| host.ceiling[k]).fold(1e-9, f64::max));
        let host = |(host, price): (&placement::Host, Option<f64>)| {
            let here =
                inventory.roles.iter().enumerate().filter(|(_, role)| role.on.as_ref() == Some(&host.name));
            let here: Vec<usize> = here.map(|(at, _)| at).collect();
            let demands = |k: usize| here.iter().map(move |role| inventory.roles[*role].demand()[k]);
            let at_least: Resources = std::array::from_fn(|k| {
                let all: f64 = demands(k).flatten().sum();
                if all > 0.0 { all / host.ceiling[k].max(1e-9) } else { 0.0 }
            });
            let wanted = std::array::from_fn(|k| demands(k).all(|one| one.is_some()).then_some(at_least[k]));
            let tightest = (0..5).max_by(|a, b| at_least[*a].total_cmp(&at_least[*b])).unwrap_or(0);
            let work = placement::work(host, &largest);
            HostGuests {
                host: host.name.clone(),
                zone: host.zone.clone(),
                guests: here.iter().map(|role| inventory.roles[*role].name.clone()).collect(),
                wanted,
                wanted_at_least: at_least,
                tightest: RESOURCES[tightest].to_owned(),
                per_price: per_unit(work, price),
                free: price == Some(0.0),
                per_watt: per_unit(work, host.watts),
            }
        };
        let nowhere = inventory.roles.iter().filter(|role| role.on.is_none());
        Self {
            hosts: hosts.iter().zip(inventory.hosts.iter().map(|host| host.price)).map(host).collect(),
            nowhere: nowhere.map(|role| role.name.clone()).collect(),
            unknown: inventory.unknown(),
            fill: inventory.options.fill,
            differences,
        }
    }

    /// Hosts whose guests want more than may be used, as far as it is known.
    pub fn overfull(&self) -> impl Iterator<Item = &HostGuests> {
        self.hosts.iter().filter(|host| host.wanted_at_least.iter().any(|share| *share > self.fill + 1e-9))
    }

    /// Whether no host is overfull, and nothing differs from what was asked.
    pub fn is_good(&self) -> bool {
        self.overfull().next().is_none() && self.differences.as_ref().is_none_or(Vec::is_empty)
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut table =
            Table::new(&["host", "zone", ">wanted", "of", ">work for its price", ">work a watt", "guests"]);
        for host in &self.hosts {
            let (wanted, of) = host.in_words();
            table.row(vec![
                host.host.clone(),
                host.zone.clone(),
                wanted,
                of,
                for_price(host.per_price, host.free),
                host.per_watt.map_or_else(|| "-".to_owned(), figure),
                host.guests.join(" "),
            ]);
        }
        let mut text = table.text();
        for host in self.overfull() {
            let _ = writeln!(
                text,
                "{} is overfull: more than {:.0} % of its {}.",
                host.host,
                self.fill * 100.0,
                host.tightest
            );
        }
        for UnknownDemand { role, columns } in &self.unknown {
            let _ = writeln!(text, "Not known of {role}: {}.", columns.join(", "));
        }
        if !self.nowhere.is_empty() {
            let _ = writeln!(text, "On no host: {}.", self.nowhere.join(", "));
        }
        match &self.differences {
            None => text += "Nobody was asked; --ask compares it with what servers and agents say.\n",
            Some(none) if none.is_empty() => text += "Servers and agents say the same.\n",
            Some(some) => some.iter().for_each(|one| {
                let _ = writeln!(text, "differs: {one}");
            }),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "kind,name,zone,on,cpu,memory,iops,mb_s,network,price,watts,work\n\
                       host,h1,a,,16,128,20000,800,1200,300,400,9000\n\
                       host,h2,b,,8,64,10000,800,1200,300,,\n\
                       role,r1,,h1,4,64,,,,,,\nrole,r2,,h1,10,16,,,,,,\nrole,r3,,,1,,,,,,,\n";

    #[test]
    fn guests_stand_with_their_host_and_what_they_want_of_it() {
        let inventory = Inventory::parse(CSV, "i.csv").unwrap();
        let guests = Guests::new(&inventory, None);
        assert_eq!(guests.hosts[0].guests, ["r1", "r2"]);
        assert_eq!((guests.hosts[0].wanted[0], guests.hosts[0].tightest.as_str()), (Some(0.875), "cpu"));
        assert_eq!((guests.hosts[0].per_price, guests.hosts[0].per_watt), (Some(30.0), Some(22.5)));
        assert_eq!(guests.hosts[1].per_watt, None);
        let text = guests.text();
        assert!(
            text.contains("h1 is overfull: more than 80 % of its cpu") && text.contains("On no host: r3"),
            "{text}"
        );
        assert!(!guests.is_good());
    }

    #[test]
    fn a_host_without_costs_is_free_and_its_work_has_no_figure_for_its_price() {
        let guests = Guests::new(&Inventory::parse(&CSV.replace("300,,", "0,0,"), "i.csv").unwrap(), None);
        let free = &guests.hosts[1];
        assert_eq!((free.per_price, free.free, free.per_watt), (None, true, None));
        let line = guests.text().lines().find(|line| line.starts_with("h2")).unwrap().to_owned();
        assert!(line.contains("free") && !line.contains("no price"), "{line}");
    }

    #[test]
    fn what_is_not_written_down_is_not_known_and_is_not_taken_for_none() {
        let guests = Guests::new(&Inventory::parse(CSV, "i.csv").unwrap(), None);
        assert_eq!(guests.hosts[0].wanted, [Some(0.875), Some(0.625), None, None, None]);
        assert_eq!(guests.hosts[1].wanted, [Some(0.0); 5], "nobody is there");
        let text = guests.text();
        assert!(
            text.contains("at least 88 %") && text.contains("Not known of r1: iops, mb_s, network."),
            "{text}"
        );
        let nothing =
            Guests::new(&Inventory::parse(&CSV.replace("r3,,,1", "r3,,h2,"), "i.csv").unwrap(), None);
        let line = nothing.text().lines().find(|line| line.starts_with("h2")).unwrap().to_owned();
        assert!(line.contains("not known"), "{line}");
    }

    #[test]
    fn what_differs_is_listed_and_is_not_good() {
        let inventory = Inventory::parse(&CSV.replace("r2,,h1,10", "r2,,h2,2"), "i.csv").unwrap();
        assert!(Guests::new(&inventory, Some(Vec::new())).is_good());
        let differs = Guests::new(&inventory, Some(vec!["r1: elsewhere".to_owned()]));
        assert!(!differs.is_good() && differs.text().contains("differs: r1: elsewhere"));
    }
}
