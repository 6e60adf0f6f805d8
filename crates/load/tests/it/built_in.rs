//! The workloads that come with the program are what they say they are. No server is needed.

use lab::app::{DataSize, Endpoint, Step as Asked};
use load::workload::file::File;
use load::workload::{Lane, Step, Transaction, Workload};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;

/// Statements of a transaction with question marks, with their lane.
fn statements(workload: &Workload, transaction: &Transaction) -> Vec<(Lane, String)> {
    let sent = transaction.steps.iter().filter_map(|step| match step {
        Step::Send { statement, .. } => Some(&workload.statements[*statement]),
        Step::Draw { .. } => None,
    });
    sent.map(|statement| (statement.lane, statement.sql(0).to_owned())).collect()
}

/// Keys as question marks, and without the endpoint's tag. Limits, counts of lines and steps are the
/// statement's own.
fn plain(sql: &str) -> String {
    let mut before = "";
    let words = sql.split(" /*").next().unwrap().split(' ').map(|word| {
        let own = matches!(std::mem::replace(&mut before, word), "LIMIT" | "+" | "-") || word == "3)";
        let digits = word.trim_matches(['(', ')', ',']);
        if own || digits.parse::<u32>().is_err() { word.to_owned() } else { word.replace(digits, "?") }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn counted(statements: impl IntoIterator<Item = (Lane, String)>) -> BTreeMap<(Lane, String), u32> {
    statements.into_iter().fold(BTreeMap::new(), |mut counts, statement| {
        *counts.entry(statement).or_default() += 1;
        counts
    })
}

#[test]
fn the_endpoints_send_what_the_demos_application_sends() {
    let workload = File::built_in("endpoints").unwrap().workload;
    let data = DataSize { accounts: 10_000, items: 50_000 };
    for endpoint in Endpoint::ALL {
        let ours = workload.transactions.iter().find(|t| t.name == endpoint.route()).unwrap();
        let asked = endpoint.request(data, &mut SmallRng::seed_from_u64(1));
        let theirs = asked.into_iter().flat_map(|step| match step {
            Asked::Read(sql) => vec![(Lane::Reader, plain(&sql))],
            Asked::Write(sql) => sql.iter().map(|sql| (Lane::Writer, plain(sql))).collect(),
        });
        let ours = statements(&workload, ours).into_iter().map(|(lane, sql)| (lane, plain(&sql)));
        assert_eq!(counted(ours), counted(theirs), "{endpoint}: the workload's (left), the demo's (right)");
    }
}

#[test]
fn a_certificate_takes_ten_inserts_and_one_delete_in_nine_transactions() {
    let workload = File::built_in("issuance").unwrap().workload;
    let certificate = workload.transactions.iter().find(|t| t.name == "certificate").unwrap();
    let sent = statements(&workload, certificate);
    let with = |word: &str| sent.iter().filter(|(_, sql)| sql.starts_with(word)).count();
    assert_eq!((with("INSERT"), with("UPDATE"), with("DELETE")), (10, 4, 1));
    let (mut open, mut transactions) = (false, 0);
    for (lane, sql) in &sent {
        match sql.as_str() {
            "BEGIN" => open = true,
            "COMMIT" => {
                open = false;
                transactions += 1;
            }
            // A write outside of a transaction is one by itself.
            sql if !open && *lane == Lane::Writer && !sql.starts_with("SELECT") => transactions += 1,
            _ => {}
        }
    }
    assert_eq!(transactions, 9);
    let reads = sent.iter().filter(|(lane, _)| *lane == Lane::Reader);
    assert!(reads.clone().all(|(_, sql)| sql.starts_with("SELECT")) && reads.count() > 10);
    // Right-growing: nothing but the server chooses where a new row goes.
    assert!(sent.iter().filter(|(_, sql)| sql.starts_with("INSERT")).all(|(_, sql)| !sql.contains("(id,")));
}
