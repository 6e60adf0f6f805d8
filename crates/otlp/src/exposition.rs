//! The text of `/metrics` read again: families with their samples. It reads what this program writes
//! (counters, gauges and classic histograms in OpenMetrics) and refuses the rest with the line, so that
//! nothing is sent that `/metrics` does not say.

use crate::error::OtlpError;

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    Counter,
    #[default]
    Gauge,
    Histogram,
}

/// Samples of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// Without the ends that samples have: `headroom_picks`.
    pub name: String,
    pub help: String,
    pub kind: Kind,
    /// As a line `# UNIT` has it; mostly empty.
    pub unit: String,
    pub samples: Vec<Sample>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub part: Part,
    /// Without the bound of a bucket.
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

/// Which of its family's lines a sample is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// The value of a counter or a gauge.
    Value,
    /// Of a histogram: how many were at most this.
    Bucket {
        at_most: f64,
    },
    Sum,
    Count,
}

/// A sample before its family is known.
struct SampleLine<'t> {
    name: &'t str,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads a whole exposition.
///
/// # Errors
/// The first line that is not understood, or the last if the end is missing.
pub fn parse(text: &str) -> Result<Vec<Family>, OtlpError> {
    let mut families: Vec<Family> = Vec::new();
    let (mut ended, mut number) = (false, 0);
    for line in text.lines() {
        number += 1;
        let wrong = |why| OtlpError::Exposition { line: number, why };
        if ended {
            return Err(wrong("follows its end"));
        } else if line == "# EOF" {
            ended = true;
        } else if let Some(comment) = line.strip_prefix("# ") {
            describe(&mut families, comment).map_err(wrong)?;
        } else {
            let line = SampleLine::parse(line).ok_or_else(|| wrong("is no sample that is understood"))?;
            let family = families.last_mut().ok_or_else(|| wrong("is of no family"))?;
            let sample =
                family.sample(line).ok_or_else(|| wrong("is of another family than those above it"))?;
            family.samples.push(sample);
        }
    }
    match ended {
        true => Ok(families),
        false => Err(OtlpError::Exposition { line: number, why: "is its last, and no end" }),
    }
}

/// `HELP name words`, `TYPE name kind` or `UNIT name unit`: of the last family, or of a new one.
fn describe(families: &mut Vec<Family>, comment: &str) -> Result<(), &'static str> {
    let (word, rest) = comment.split_once(' ').ok_or("is a comment that is not understood")?;
    let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
    if families.last().is_none_or(|last| last.name != name) {
        families.push(Family { name: name.to_owned(), ..Family::default() });
    }
    let Some(family) = families.last_mut() else { return Ok(()) };
    match word {
        "HELP" => family.help = unescaped(value),
        "UNIT" => value.clone_into(&mut family.unit),
        "TYPE" => {
            family.kind = match value {
                "counter" => Kind::Counter,
                "gauge" => Kind::Gauge,
                "histogram" => Kind::Histogram,
                _ => return Err("has a type that is not sent"),
            }
        }
        _ => return Err("is a comment that is not understood"),
    }
    Ok(())
}

impl Family {
    /// The sample that a line of this family is.
    fn sample(&self, line: SampleLine<'_>) -> Option<Sample> {
        let SampleLine { name, mut labels, value } = line;
        let part = match (self.kind, name.strip_prefix(self.name.as_str())?) {
            (Kind::Gauge, "") | (Kind::Counter, "_total") => Part::Value,
            (Kind::Histogram, "_sum") => Part::Sum,
            (Kind::Histogram, "_count") => Part::Count,
            (Kind::Histogram, "_bucket") => {
                let at = labels.iter().position(|(name, _)| name == "le")?;
                Part::Bucket { at_most: labels.remove(at).1.parse().ok()? }
            }
            _ => return None,
        };
        Some(Sample { part, labels, value })
    }
}

impl<'t> SampleLine<'t> {
    /// `name value` or `name{label="value",...} value`; neither a time nor an exemplar follows.
    fn parse(line: &'t str) -> Option<Self> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        let value = rest.strip_prefix(' ')?.parse().ok()?;
        (!name.is_empty()).then_some(Self { name, labels, value })
    }
}

/// Labels up to the closing brace, and what follows it.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((found, after));
        }
        let (name, value) = rest.split_once("=\"")?;
        let end = closing_quote(value)?;
        found.push((name.to_owned(), unescaped(&value[..end])));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// The quote that no backslash stands before.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn families_have_their_words_kinds_and_samples() {
        let text = "# HELP a_b Words of it.\n# TYPE a_b counter\n\
                    a_b_total{x=\"1\",y=\"a \\\"b\\\" \\\\ \\n}\"} 3\na_b_total{} 4\n\
                    # HELP c_seconds Of c.\n# TYPE c_seconds gauge\n# UNIT c_seconds seconds\nc_seconds -0.5\n\
                    # HELP empty Nothing.\n# TYPE empty gauge\n\
                    # HELP d D.\n# TYPE d histogram\nd_bucket{s=\"r\",le=\"0.1\"} 1\nd_bucket{s=\"r\",le=\"+Inf\"} 2\n\
                    d_sum{s=\"r\"} 1.5\nd_count{s=\"r\"} 2\n# EOF\n";
        let [counter, gauge, empty, histogram] = &parse(text).unwrap()[..] else { panic!("four families") };
        assert_eq!(
            (counter.name.as_str(), counter.kind, counter.help.as_str()),
            ("a_b", Kind::Counter, "Words of it.")
        );
        let labels = pairs(&[("x", "1"), ("y", "a \"b\" \\ \n}")]);
        assert_eq!(counter.samples[0], Sample { part: Part::Value, labels, value: 3.0 });
        assert_eq!(counter.samples[1], Sample { part: Part::Value, labels: vec![], value: 4.0 });
        assert_eq!((gauge.kind, gauge.unit.as_str(), gauge.samples[0].value), (Kind::Gauge, "seconds", -0.5));
        assert!(empty.samples.is_empty());
        let parts: Vec<Part> = histogram.samples.iter().map(|sample| sample.part).collect();
        let bucket = |at_most| Part::Bucket { at_most };
        assert_eq!(parts, [bucket(0.1), bucket(f64::INFINITY), Part::Sum, Part::Count]);
        assert!(histogram.samples.iter().all(|sample| sample.labels == pairs(&[("s", "r")])));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        for (text, line, why) in [
            ("# TYPE a gauge\na 1\n", 2, "no end"),
            ("", 0, "no end"),
            ("# EOF\na 1\n", 2, "follows its end"),
            ("a 1\n# EOF\n", 1, "no family"),
            ("# TYPE a gauge\nb 1\n# EOF\n", 2, "another family"),
            ("# TYPE a counter\na 1\n# EOF\n", 2, "another family"),
            ("# TYPE a histogram\na_bucket 1\n# EOF\n", 2, "another family"),
            ("# TYPE a summary\n# EOF\n", 1, "type"),
            ("# HALP a b\n# EOF\n", 1, "comment"),
            ("# TYPE a gauge\na 1 1700000000\n# EOF\n", 2, "no sample"),
            ("# TYPE a gauge\na one\n# EOF\n", 2, "no sample"),
            ("# TYPE a gauge\na{b=\"c} 1\n# EOF\n", 2, "no sample"),
            ("# TYPE a gauge\n\n# EOF\n", 2, "no sample"),
        ] {
            match parse(text) {
                Err(OtlpError::Exposition { line: at, why: said }) => {
                    assert!(at == line && said.contains(why), "{text:?}: line {at} {said}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,200}") {
            let _ = parse(&format!("# TYPE a gauge\n{text}\n# EOF\n"));
        }

        #[test]
        fn a_label_survives_its_escapes(value in "(?s).{0,40}", number in any::<f64>()) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let families = parse(&format!("# TYPE a gauge\na{{b=\"{escaped}\",c=\"\"}} {number}\n# EOF\n")).unwrap();
            let sample = &families[0].samples[0];
            prop_assert_eq!(&sample.labels, &pairs(&[("b", &value), ("c", "")]));
            prop_assert!(sample.value == number || sample.value.is_nan() && number.is_nan());
        }
    }
}
