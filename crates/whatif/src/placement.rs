//! A placement in words: what runs where, how full, what may be retired, what is not survived.

use crate::inventory::{Inventory, UnknownDemands};
use crate::ledger::{Answer, Kind};
use crate::words::{assumed, figure, for_price, per_unit};
use plan::placement::{self, NoPlacement, RESOURCES, Resources};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;
use term::Table;

/// A host that is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFill {
    pub host: String,
    pub zone: String,
    pub roles: Vec<String>,
    /// The resource that is used most, and its share of what may be used.
    pub tightest: String,
    pub share: f64,
}

/// A host that is not needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retire {
    pub host: String,
    /// Work for each unit of its price, where that is known and above 0.
    pub per_price: Option<f64>,
    /// Its price is 0.
    #[serde(default)]
    pub free: bool,
    /// Work for each watt.
    pub per_watt: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementAnswer {
    /// The file that it was asked of.
    #[serde(default)]
    pub inventory: String,
    pub hosts: Vec<HostFill>,
    /// A month; `None` where a host has no price: then the fewest hosts are sought.
    pub price: Option<f64>,
    /// Of today's placement, where the inventory has it.
    pub price_today: Option<f64>,
    /// No placement that is counted with all take-overs at once is cheaper than this, or without prices has
    /// fewer hosts.
    pub bound: f64,
    /// The same of any placement, however take-overs are counted.
    #[serde(default)]
    pub floor: f64,
    /// Whether roles take over from each other.
    #[serde(default)]
    pub takes_over: bool,
    /// Hosts of today's placement, where the inventory has it.
    #[serde(default)]
    pub hosts_today: Option<usize>,
    /// Hosts without a price.
    #[serde(default)]
    pub unpriced: Vec<String>,
    pub gap: f64,
    pub by: String,
    /// (role, from, to).
    pub moves: Vec<(String, String, String)>,
    /// In the order in which to retire them.
    pub retire: Vec<Retire>,
    /// Roles that nobody takes over when their host fails.
    pub alone: Vec<String>,
    /// Rules that today's placement breaks.
    pub broken_today: Vec<String>,
    /// The rule that keeps like roles apart was given up.
    pub together: bool,
    /// Seconds for which a placement that keeps it was sought in vain; `None` where there is none.
    #[serde(default)]
    pub apart_sought_s: Option<f64>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlacementError {
    #[error(transparent)]
    Unknown(#[from] UnknownDemands),
    #[error(transparent)]
    None(#[from] NoPlacement),
}

/// Places the roles of an inventory.
///
/// # Errors
/// There is no placement, none was found in time, or not all that roles want is known.
pub fn answer(inventory: &Inventory, name: &str, time: Duration) -> Result<PlacementAnswer, PlacementError> {
    let mut question = inventory.question()?;
    let unpriced = inventory.unpriced();
    let (found, not_apart) = match placement::solve(&question, time) {
        Err(why) if question.apart => {
            question.apart = false;
            (placement::solve(&question, time)?, Some(why))
        }
        other => (other?, None),
    };
    let apart_sought_s = not_apart.as_ref().and_then(|why| match why {
        NoPlacement::NotFound { seconds, .. } => Some(*seconds),
        _ => None,
    });
    let demands = question.demands();
    let fill = |host: usize| {
        let here: Vec<usize> = (0..found.on.len()).filter(|role| found.on[*role] == host).collect();
        let usable = question.usable(host);
        let share = |k: usize| here.iter().map(|role| demands[*role][k]).sum::<f64>() / usable[k].max(1e-9);
        let tightest = (0..5).max_by(|a, b| share(*a).total_cmp(&share(*b))).unwrap_or(0);
        HostFill {
            host: question.hosts[host].name.clone(),
            zone: question.hosts[host].zone.clone(),
            roles: here.iter().map(|role| question.roles[*role].name.clone()).collect(),
            tightest: RESOURCES[tightest].to_owned(),
            share: share(tightest),
        }
    };
    let number = |name: &String| question.hosts.iter().position(|host| host.name == *name);
    let today: Option<Vec<usize>> = inventory.roles.iter().map(|role| number(role.on.as_ref()?)).collect();
    let largest: Resources =
        std::array::from_fn(|k| question.hosts.iter().map(|host| host.ceiling[k]).fold(1e-9, f64::max));
    let retire = |host: usize| {
        let one = &question.hosts[host];
        let work = placement::work(one, &largest);
        let price = inventory.hosts[host].price;
        Retire {
            host: one.name.clone(),
            per_price: per_unit(work, price),
            free: price == Some(0.0),
            per_watt: per_unit(work, one.watts),
        }
    };
    let groups = question.groups();
    let is_alone = |role: &placement::Role| role.group.as_deref().is_none_or(|group| groups[group].len() < 2);
    let moved = |today: &Vec<usize>| {
        let pairs = today.iter().zip(&found.on).enumerate().filter(|(_, (from, to))| from != to);
        pairs
            .map(|(role, (from, to))| {
                let host = |at: &usize| question.hosts[*at].name.clone();
                (question.roles[role].name.clone(), host(from), host(to))
            })
            .collect()
    };
    Ok(PlacementAnswer {
        inventory: name.to_owned(),
        hosts: (0..question.hosts.len()).filter(|host| found.on.contains(host)).map(fill).collect(),
        price: unpriced.is_empty().then_some(found.price),
        price_today: today.as_ref().filter(|_| unpriced.is_empty()).map(|today| question.price(today)),
        hosts_today: today.as_ref().map(|today| today.iter().collect::<BTreeSet<_>>().len()),
        unpriced,
        bound: found.bound,
        floor: found.floor,
        takes_over: question.takes_over(),
        gap: found.gap(),
        by: found.by.clone(),
        moves: today.as_ref().map(moved).unwrap_or_default(),
        retire: placement::retire(&question, &found.on).into_iter().map(retire).collect(),
        alone: question.roles.iter().filter(|role| is_alone(role)).map(|role| role.name.clone()).collect(),
        broken_today: today.map(|today| placement::check(&question, &today)).unwrap_or_default(),
        together: not_apart.is_some(),
        apart_sought_s,
    })
}

impl PlacementAnswer {
    /// What stands beside a claim that is not proved of every way to count take-overs.
    pub(crate) fn by_count(&self) -> &'static str {
        if self.bound > self.floor + 1e-9 { " by this count" } else { "" }
    }

    /// Whether today's placement keeps all rules, one failure at a time, and is cheaper or has fewer hosts.
    fn today_is_better(&self) -> bool {
        let cheaper = match (self.price, self.price_today) {
            (Some(price), Some(today)) => today < price - 1e-9,
            _ => self.hosts_today.is_some_and(|today| today < self.hosts.len()),
        };
        cheaper && self.broken_today.is_empty()
    }

    /// A sentence on the rule that was given up.
    fn why_together(&self) -> String {
        let count = if self.takes_over { "by this count " } else { "" };
        match self.apart_sought_s {
            None => format!("{count}no placement keeps all of them apart"),
            Some(seconds) => format!(
                "none was found in {seconds:.1} s that keeps all of them apart, and it is not proved that there is none; more --time may find one"
            ),
        }
    }
}

impl Answer for PlacementAnswer {
    fn about(&self) -> (Kind, String, String) {
        (Kind::Placement, self.inventory.clone(), String::new())
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            format!("The demands of roles are those of {}; they peak at the same time.", self.inventory),
            "A role takes as much on any host; when a host fails, the others of its groups share what its roles did.".to_owned(),
        ]
        .into_iter()
        .chain(self.takes_over.then(|| {
            "Each role is counted with the most that it may take over, all of them at once: never too little, although one host fails at a time. A placement that counts failures one by one may be cheaper.".to_owned()
        }))
        .collect()
    }

    fn is_good(&self) -> bool {
        true
    }

    fn text(&self) -> String {
        let mut table = Table::new(&["host", "zone", ">filled", "by", "roles"]);
        for one in &self.hosts {
            let share = format!("{:.0} %", one.share * 100.0);
            table.row(vec![
                one.host.clone(),
                one.zone.clone(),
                share,
                one.tightest.clone(),
                one.roles.join(", "),
            ]);
        }
        let mut text = table.text();
        let (best, better, least) = match self.price {
            Some(price) => {
                let _ = write!(text, "\n{} hosts at {} a month", self.hosts.len(), figure(price));
                if let Some(today) = self.price_today {
                    let _ = write!(text, " (today {})", figure(today));
                }
                ("none is cheaper", "the cheapest costs", figure(self.bound))
            }
            None => {
                let _ = write!(text, "\n{} hosts", self.hosts.len());
                if let Some(today) = self.hosts_today {
                    let _ = write!(text, " (today {today})");
                }
                ("none has fewer", "the fewest hosts are", format!("{:.0}", self.bound.ceil()))
            }
        };
        let count = self.by_count();
        let _ = match self.gap {
            gap if gap < 1e-6 => writeln!(text, "; {best}{count}."),
            gap => writeln!(text, "; {better}{count} at least {least} (gap {:.1} %).", gap * 100.0),
        };
        if !self.unpriced.is_empty() {
            let _ = writeln!(
                text,
                "What they cost is not known, and the fewest hosts are sought: no price for {}.",
                self.unpriced.join(", ")
            );
        }
        let _ = writeln!(text, "Found by {}.", self.by);
        if self.together {
            let _ = writeln!(
                text,
                "Roles that want most of the same resource share hosts: {}.",
                self.why_together()
            );
        }
        if self.today_is_better() {
            text += "Today's placement is better, and keeps all rules when failures are counted one by one: stay with it.\n";
        }
        for broken in &self.broken_today {
            let _ = writeln!(text, "Today: {broken}");
        }
        for (role, from, to) in &self.moves {
            let _ = writeln!(text, "Move {role} from {from} to {to}.");
        }
        if !self.retire.is_empty() {
            text += "\nNot needed, in the order in which to retire them:\n";
            let mut table = Table::new(&["host", ">work for its price", ">work a watt"]);
            for one in &self.retire {
                let watt = one.per_watt.map_or_else(|| "-".to_owned(), figure);
                table.row(vec![one.host.clone(), for_price(one.per_price, one.free), watt]);
            }
            text += &table.text();
        }
        if !self.alone.is_empty() {
            let _ = writeln!(
                text,
                "\nNobody takes over when their host fails (no group): {}.",
                self.alone.join(", ")
            );
        }
        text += "Filled is the share of what may be used, with what each takes over when another of its group is lost, all of it at once.\n";
        text += &assumed(&self.assumptions());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_is_placed_and_says_what_to_move_and_retire() {
        let csv = "kind,name,zone,group,on,cpu,memory,iops,mb_s,network,price,watts\n\
                   host,old,a,,,8,64,4000,400,1000,200,500\nhost,new1,a,,,16,128,20000,800,1200,150,300\n\
                   host,new2,b,,,16,128,20000,800,1200,150,300\n\
                   role,r1,,readers,old,2,16,500,50,20,,\nrole,r2,,readers,old,2,16,500,50,20,,\nrole,cron,,,new1,1,4,50,5,1,,\n";
        let inventory = Inventory::parse(csv, "i.csv").unwrap();
        let answer = answer(&inventory, "i.toml", Duration::from_secs(5)).unwrap();
        assert_eq!((answer.price, answer.price_today), (Some(300.0), Some(350.0)), "{}", answer.text());
        assert!(answer.broken_today.iter().any(|broken| broken.contains("both on old")));
        assert_eq!(answer.retire[0].host, "old");
        assert_eq!(answer.alone, ["cron"]);
        assert!(answer.text().contains("none is cheaper"), "{}", answer.text());
    }

    #[test]
    fn without_all_prices_hosts_are_counted_and_none_is_said_to_cost_anything() {
        let csv = "kind,name,zone,on,cpu,memory,iops,mb_s,network,price\n\
                   host,h1,a,,16,128,20000,800,1200,900\nhost,h2,b,,16,128,20000,800,1200,\n\
                   role,r1,,h1,2,16,500,50,20,\nrole,r2,,h2,2,16,500,50,20,\n";
        let inventory = Inventory::parse(csv, "i.csv").unwrap();
        let answer = answer(&inventory, "i.csv", Duration::from_secs(5)).unwrap();
        assert_eq!((answer.price, answer.price_today, answer.hosts_today), (None, None, Some(2)));
        let text = answer.text();
        assert!(text.contains("1 hosts (today 2); none has fewer"), "{text}");
        assert!(text.contains("no price for h2") && !text.contains("a month"), "{text}");
    }

    #[test]
    fn without_all_demands_nothing_is_placed_and_role_and_column_are_named() {
        let csv = "kind,name,zone,cpu,memory,iops,mb_s,network,price\n                   host,h1,a,16,128,20000,800,1200,900\nrole,r1,,2,16,500,,20,\nrole,r2,,,16,500,0,20,\n";
        let inventory = Inventory::parse(csv, "i.csv").unwrap();
        let why = answer(&inventory, "i.csv", Duration::from_secs(1)).unwrap_err();
        assert!(matches!(&why, PlacementError::Unknown(all) if all.roles.len() == 2), "{why}");
        assert!(why.to_string().contains("mb_s of r1; cpu of r2"), "{why}");
    }

    /// Hosts of 8 cores, a zone each, and pairs of roles that stand in for each other: `on` has the number of
    /// the host of each, pair by pair.
    fn pairs(hosts: usize, cores: f64, on: &str) -> Inventory {
        let mut csv = "kind,name,zone,group,on,cpu,memory,iops,mb_s,network,price\n".to_owned();
        for at in 1..=hosts {
            csv += &format!("host,h{at},z{at},,,8,64,4000,400,1000,10\n");
        }
        for (at, host) in on.chars().enumerate() {
            csv += &format!("role,r{at},,g{},h{host},{cores},1,1,1,1,\n", at / 2);
        }
        Inventory::parse(&csv, "i.csv").unwrap()
    }

    #[test]
    fn none_is_called_cheaper_only_by_the_count_that_it_is_proved_for() {
        let answer = answer(&pairs(3, 1.6, "122331"), "i.csv", Duration::from_secs(5)).unwrap();
        assert_eq!((answer.price, answer.bound, answer.floor), (Some(30.0), 30.0, 20.0));
        let text = answer.text();
        assert!(
            text.contains("3 hosts at 30.0 a month (today 30.0); none is cheaper by this count."),
            "{text}"
        );
        assert!(text.contains("A placement that counts failures one by one may be cheaper"), "{text}");
        assert!(!text.contains("stay with it"), "{text}");
        let kept = serde_json::to_value(&answer).unwrap();
        assert_eq!(serde_json::from_value::<PlacementAnswer>(kept).unwrap(), answer);
    }

    #[test]
    fn todays_placement_is_not_given_up_for_one_that_only_the_count_at_once_needs() {
        // Each of two hosts has three roles, and takes over two of them at most: 3 x 1.2 + 2 x 1.2 of 6.4.
        // At once it would be 3 x 2.4.
        let today = pairs(4, 1.2, "12121323");
        let answer = answer(&today, "i.csv", Duration::from_secs(5)).unwrap();
        assert_eq!((answer.price, answer.price_today), (Some(40.0), Some(30.0)));
        assert_eq!(answer.broken_today, Vec::<String>::new());
        assert!(answer.text().contains("stay with it"), "{}", answer.text());
        let broken = PlacementAnswer { broken_today: vec!["h1 has too much".to_owned()], ..answer };
        assert!(!broken.text().contains("stay with it"));
    }

    #[test]
    fn a_rule_that_time_ran_out_for_is_not_said_to_be_impossible() {
        // One role more than hosts, and all want most of the CPU: too many pairs for a proof.
        let mut csv = "kind,name,zone,cpu,memory,iops,mb_s,network,price\n".to_owned();
        for at in 0..25 {
            csv += &format!("host,h{at},a,8,64,4000,400,1000,10\n");
        }
        for at in 0..26 {
            csv += &format!("role,r{at},,2,1,1,1,1,\n");
        }
        let mut inventory = Inventory::parse(&csv, "i.csv").unwrap();
        inventory.options.apart = true;
        let sought = answer(&inventory, "i.csv", Duration::from_secs(1)).unwrap();
        assert!(sought.together && sought.apart_sought_s.is_some(), "{sought:?}");
        let text = sought.text();
        assert!(text.contains("that keeps all of them apart, and it is not proved"), "{text}");
        assert!(!text.contains("no placement keeps"), "{text}");
        // With few hosts it is proved.
        inventory.hosts.truncate(2);
        inventory.roles.truncate(3);
        let proved = answer(&inventory, "i.csv", Duration::from_secs(5)).unwrap();
        assert_eq!((proved.together, proved.apart_sought_s), (true, None));
        assert!(
            proved.text().contains("share hosts: no placement keeps all of them apart."),
            "{}",
            proved.text()
        );
    }
}
