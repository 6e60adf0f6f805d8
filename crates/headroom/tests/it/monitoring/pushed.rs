//! What is pushed by OTLP against what is scraped, for everything that a router, an agent and a guard can
//! say.

#[path = "../../../../otlp/tests/it/lines.rs"]
mod lines;

use super::registry;
use otlp::Resource;
use otlp::metrics::Times;
use std::time::SystemTime;

#[test]
fn every_sample_of_every_program_is_in_the_message_with_its_value_meaning_and_unit() {
    for (program, exposition) in registry::programs() {
        let resource = Resource::new(program, "", "", "", &[]);
        let families =
            otlp::exposition::parse(&exposition).unwrap_or_else(|error| panic!("{program}: {error}"));
        let times = Times::new(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
        let message = otlp::metrics::message(&families, &resource, times);
        lines::assert_same(&exposition, &message);
        let scraped = registry::families(&exposition);
        for metric in &message.resource_metrics[0].scope_metrics[0].metrics {
            assert_eq!(metric.description, scraped[&metric.name].help, "{}", metric.name);
            let unit = match super::unit(&metric.name) {
                "seconds" => "s",
                "bytes" => "By",
                _ => "",
            };
            assert_eq!(metric.unit, unit, "{}", metric.name);
        }
    }
}
