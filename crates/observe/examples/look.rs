//! Prints a survey of the fleet behind the given seeds: `look user password seed [seed ...]`.
#![allow(clippy::print_stdout, reason = "an example prints")]
use fleet::config::{Credentials, FleetConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let credentials = Credentials {
        user: Some(args[1].clone()),
        password: Some(args[2].clone()),
        ..Credentials::default()
    };
    let seeds = args[3..].iter().map(|s| s.parse().expect("an address")).collect();
    let config = FleetConfig { seeds, credentials, ..FleetConfig::default() };
    let start = std::time::Instant::now();
    let snapshot = observe::survey(&config).await;
    println!("{snapshot:#?}\n{:?}", start.elapsed());
}
