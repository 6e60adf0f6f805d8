//! The guide's table of rules is the table of rules.

use diagnose::verdict::RULES;

#[test]
fn the_guide_lists_every_rule_in_its_own_words() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/watch.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let begin = guide.find("<!-- rules:").unwrap();
    let begin = begin + guide[begin..].find('\n').unwrap() + 1;
    let end = guide.find("<!-- end of rules -->").unwrap();
    let mut table =
        "| named | when (N Netdata, K kernel, I reasoned) | try first |\n|---|---|---|\n".to_owned();
    for rule in RULES {
        let name = serde_json::to_value(rule.name).unwrap();
        let name = name.as_str().unwrap();
        // A bar would end the cell.
        let next = rule.next[0].replace('|', "\\|");
        table.push_str(&format!("| {} (`{name}`) | {} | {next} |\n", rule.called, rule.when));
    }
    assert!(guide[begin..end] == table, "docs/guide/watch.md should have:\n{table}");
}
