//! Typed values: every value is checked before anything is written, and two texts of the same value compare
//! equal.
//!
//! Checking yields the *canonical* text, which is what the journal holds and what a file is read back as: CPU
//! sets as a list (`0-3`), sizes in bytes, the chosen word of `[none] mq-deadline`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a knob can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// A whole number in a range, in steps: `read_ahead_kb` is rounded to pages by the kernel, so others are
    /// refused here.
    Whole {
        min: i64,
        max: i64,
        step: i64,
    },
    /// 0 or a power of two: others are rounded up by the kernel.
    PowerOfTwo {
        max: i64,
    },
    OneOf(&'static [&'static str]),
    /// One of the words that the file itself offers: `[none] mq-deadline`.
    Offered,
    /// One of the words in another file, whose path has the same `{}`.
    OfferedBy(&'static str),
    /// A set of CPUs: `0-3,8`, `0xff`, `all` or `none`.
    Cpus,
    /// A set of CPUs with at least one.
    SomeCpus,
    /// Bytes, with K, M, G or T, in whole pages; or `max`.
    Limit,
    /// `max`, CPUs as a decimal (`1.5`), or `QUOTA PERIOD` in microseconds.
    CpuMax,
    /// `MAJOR:MINOR rbps=... wbps=... riops=... wiops=...`, or a disk's name for the numbers.
    IoMax,
    /// As many numbers as there are now, or a word where there is a word.
    LikeNow,
    /// Mount options, separated by commas.
    MountOptions,
    /// One line of text; sizes such as `16k` become bytes.
    Word,
    /// What the server says that the variable takes.
    Server,
}

impl Values {
    /// For people: what can be written.
    pub fn words(self) -> String {
        match self {
            Self::Whole { min, max: i64::MAX, step: 1 } => format!("{min} or more"),
            Self::Whole { min, max, step: 1 } => format!("{min} to {max}"),
            Self::Whole { min, max, step } => format!("{min} to {max} in steps of {step}"),
            Self::PowerOfTwo { max } => format!("0 or a power of two up to {max}"),
            Self::OneOf(words) => words.join(", "),
            Self::Offered | Self::OfferedBy(_) => "what the kernel offers".to_owned(),
            Self::Cpus => "CPUs: 0-3,8 or 0xff, all, none".to_owned(),
            Self::SomeCpus => "CPUs, at least one: 0-3,8 or 0xff, all".to_owned(),
            Self::Limit => "bytes in whole pages (512M), or max".to_owned(),
            Self::CpuMax => "max, CPUs (1.5), or QUOTA PERIOD in microseconds".to_owned(),
            Self::IoMax => "MAJOR:MINOR rbps=N wbps=N riops=N wiops=N".to_owned(),
            Self::LikeNow => "as many numbers as now, or a word".to_owned(),
            Self::MountOptions => "mount options: noatime,commit=30".to_owned(),
            Self::Word => "one line".to_owned(),
            Self::Server => "what the server takes".to_owned(),
        }
    }
}

/// What a check needs to know of the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The present value, canonical.
    pub now: Option<&'a str>,
    /// Words that are offered, where the kernel offers some.
    pub offered: &'a [String],
    pub cpus: u32,
    /// CPUs that run, as a list; empty where that is not known.
    pub online: &'a str,
    /// Bytes of a page.
    pub page: u64,
}

/// Why a value is not one that a knob can take, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The device that was named passes requests on.
    #[error("{wrong}; {below}")]
    OnOthers {
        wrong: Box<ValueError>,
        /// Where it is to be set, in words.
        below: String,
    },
    #[error("the value is empty")]
    Empty,
    #[error("a value is one line of at most 4096 bytes")]
    NotOneLine,
    #[error("not a whole number; {takes}")]
    NotWhole { takes: String },
    #[error("it takes {0}")]
    Takes(String),
    #[error("'{word}': it takes rbps=N wbps=N riops=N wiops=N, or max")]
    IoMax { word: String },
    #[error("this host offers: {}", .0.join(", "))]
    NotOffered(Vec<String>),
    #[error("at least one CPU must be left")]
    NoCpuLeft,
    #[error("'{text}' is no set of CPUs: 0-3,8 or 0xff, all, none")]
    NotCpus { text: String },
    #[error("there is no CPU {cpu}; this host has {cpus}")]
    NoSuchCpu { cpu: u32, cpus: u32 },
    #[error("{bytes} is not a whole number of pages of {page} bytes")]
    NotPages { bytes: u64, page: u64 },
    #[error("quota is 1000 us or more, period 1000 to 1000000 us")]
    CpuMaxRange,
    #[error("the server takes {0}")]
    ServerTakes(String),
    #[error("not a number; the server takes {0}")]
    NotANumber(String),
}

impl ValueError {
    fn takes(what: impl Into<String>) -> Self {
        Self::Takes(what.into())
    }
}

/// The canonical text of a value, or what would be right. `Server`, `CpuMax` and `IoMax` are only tidied
/// here.
///
/// # Errors
/// The value is not one the knob can take; in words.
pub fn check(values: Values, text: &str, facts: &Facts<'_>) -> Result<String, ValueError> {
    let text = text.trim();
    if text.is_empty() && values != Values::Word {
        return Err(ValueError::Empty);
    }
    if text.chars().any(char::is_control) || text.len() > 4096 {
        return Err(ValueError::NotOneLine);
    }
    match values {
        Values::Whole { min, max, step } => {
            let number: i64 = text.parse().map_err(|_| ValueError::NotWhole { takes: values.words() })?;
            let fits = (min..=max).contains(&number) && number % step == 0;
            if fits { Ok(number.to_string()) } else { Err(ValueError::takes(values.words())) }
        }
        Values::PowerOfTwo { max } => {
            let number: i64 = text.parse().map_err(|_| ValueError::NotWhole { takes: values.words() })?;
            let fits = number == 0 || (number > 0 && number <= max && number.count_ones() == 1);
            if fits { Ok(number.to_string()) } else { Err(ValueError::takes(values.words())) }
        }
        Values::OneOf(words) => match words.iter().find(|word| **word == text) {
            Some(word) => Ok((*word).to_owned()),
            None => Err(ValueError::takes(format!("one of: {}", words.join(", ")))),
        },
        Values::Offered | Values::OfferedBy(_) => {
            // Where nothing is known of the host, the kernel decides; it refuses in words of its own.
            if facts.offered.is_empty() || facts.offered.iter().any(|word| word == text) {
                return single_word(text);
            }
            Err(ValueError::NotOffered(facts.offered.to_vec()))
        }
        Values::Cpus => asked_cpus(text, facts).map(|set| cpu_list(&set)),
        Values::SomeCpus => match asked_cpus(text, facts)? {
            set if set.is_empty() => Err(ValueError::NoCpuLeft),
            set => Ok(cpu_list(&set)),
        },
        Values::Limit if text == "max" => Ok(text.to_owned()),
        Values::Limit => match size(text) {
            Some(bytes) if bytes.is_multiple_of(facts.page.max(1)) => Ok(bytes.to_string()),
            Some(bytes) => Err(ValueError::NotPages { bytes, page: facts.page }),
            None => Err(ValueError::takes("bytes (512M), or max")),
        },
        Values::CpuMax => cpu_max(text),
        Values::LikeNow => like_now(text, facts.now),
        Values::Word => Ok(size(text).map_or_else(|| text.to_owned(), |bytes| bytes.to_string())),
        Values::MountOptions | Values::IoMax | Values::Server => Ok(text.to_owned()),
    }
}

/// `all` is every CPU that runs: of those that do not yet (a virtual machine is often made for 128) the
/// kernel takes none into a mask, and what reads back would differ.
fn asked_cpus(text: &str, facts: &Facts<'_>) -> Result<BTreeSet<u32>, ValueError> {
    let online = cpu_set(facts.online, facts.cpus).unwrap_or_default();
    if text == "all" && !online.is_empty() { Ok(online) } else { cpu_set(text, facts.cpus) }
}

fn single_word(text: &str) -> Result<String, ValueError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_+".contains(c);
    if text.chars().all(plain) { Ok(text.to_owned()) } else { Err(ValueError::takes("one word")) }
}

fn like_now(text: &str, now: Option<&str>) -> Result<String, ValueError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let numbers = |fields: &[&str]| fields.iter().all(|field| field.parse::<i64>().is_ok());
    if let Some(now) = now {
        let present: Vec<&str> = now.split_whitespace().collect();
        if !present.is_empty() && numbers(&present) && !(numbers(&fields) && fields.len() == present.len()) {
            let what =
                if present.len() == 1 { "a whole number" } else { "as many whole numbers as there are now" };
            return Err(ValueError::takes(format!("{what} (now: {})", present.join(" "))));
        }
    }
    Ok(fields.join(" "))
}

/// `1.5` -> `150000 100000`; `50000 100000` and `max` stay. The period is 100 ms unless given.
fn cpu_max(text: &str) -> Result<String, ValueError> {
    const PERIOD: u64 = 100_000;
    let wrong = || ValueError::takes("max, CPUs (1.5), or QUOTA PERIOD in microseconds (150000 100000)");
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (quota, period) = match fields.as_slice() {
        ["max"] => ("max".to_owned(), PERIOD),
        ["max", period] => ("max".to_owned(), period.parse().map_err(|_| wrong())?),
        [quota, period] => {
            (quota.parse::<u64>().map_err(|_| wrong())?.to_string(), period.parse().map_err(|_| wrong())?)
        }
        [cpus] => {
            let cpus: f64 = cpus.parse().map_err(|_| wrong())?;
            if !(0.01..=8192.0).contains(&cpus) {
                return Err(wrong());
            }
            (((cpus * PERIOD as f64).round() as u64).to_string(), PERIOD)
        }
        _ => return Err(wrong()),
    };
    let fits =
        (1_000..=1_000_000).contains(&period) && quota.parse::<u64>().is_ok_and(|quota| quota >= 1_000);
    if fits || (quota == "max" && (1_000..=1_000_000).contains(&period)) {
        Ok(format!("{quota} {period}"))
    } else {
        Err(ValueError::CpuMaxRange)
    }
}

/// Bytes of `512`, `16k`, `1.5G` (powers of 1024); only with digits first.
pub fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1_u64,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let part: f64 = digits.parse().ok().filter(|part: &f64| part.is_finite() && *part >= 0.0 && unit > 1)?;
    Some((part * unit as f64) as u64)
}

/// A set of CPUs of `0-3,8`, `0xff`, `all` or `none`; `cpus` is how many there are.
///
/// # Errors
/// Not a set, or CPUs that do not exist.
pub fn cpu_set(text: &str, cpus: u32) -> Result<BTreeSet<u32>, ValueError> {
    let wrong = || ValueError::NotCpus { text: text.to_owned() };
    let set = match text.trim() {
        "all" => (0..cpus).collect(),
        "none" | "" => BTreeSet::new(),
        mask if mask.starts_with("0x") => mask_set(&mask[2..]).ok_or_else(wrong)?,
        list => {
            let mut set = BTreeSet::new();
            for part in list.split(',') {
                let (from, to) = part.split_once('-').unwrap_or((part, part));
                let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < 8192);
                let (Some(from), Some(to)) = (number(from), number(to)) else { return Err(wrong()) };
                if from > to {
                    // As an empty range it would be none of the CPUs.
                    return Err(wrong());
                }
                set.extend(from..=to);
            }
            set
        }
    };
    match set.last() {
        Some(last) if *last >= cpus => Err(ValueError::NoSuchCpu { cpu: *last, cpus }),
        _ => Ok(set),
    }
}

/// `ff,00000001` -> CPUs; the kernel writes 32 bits a group, the highest first.
pub(crate) fn mask_set(mask: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for (group, digits) in mask.trim().rsplit(',').enumerate() {
        // A mask without commas may be longer than a group.
        for (at, digit) in digits.trim().chars().rev().enumerate() {
            let bits = digit.to_digit(16)?;
            let first = group as u32 * 32 + at as u32 * 4;
            set.extend((0..4).filter(|bit| bits & (1 << bit) != 0).map(|bit| first + bit));
        }
    }
    (!mask.trim().is_empty()).then_some(set)
}

/// CPUs -> `ff,00000001`.
pub(crate) fn set_mask(set: &BTreeSet<u32>) -> String {
    let groups = set.last().map_or(0, |last| last / 32) + 1;
    let word = |group: u32| {
        let bits = set.range(group * 32..(group + 1) * 32).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
        if group + 1 == groups { format!("{bits:x}") } else { format!("{bits:08x}") }
    };
    (0..groups).rev().map(word).collect::<Vec<_>>().join(",")
}

/// CPUs -> `0-3,8`; none is `none`.
pub(crate) fn cpu_list(set: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in set {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    if ranges.is_empty() {
        return "none".to_owned();
    }
    let range = |(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// How the text of a file stands for a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As it is; blanks between fields do not count.
    Plain,
    /// `[none] mq-deadline`: the word in brackets.
    Bracket,
    /// Hexadecimal CPU mask.
    Mask,
    List,
    /// cgroup v1: a number that means "no limit" when it is the greatest there is; written as -1.
    LimitV1,
    /// cgroup v2 `io.max`: the line of one device.
    Device(String),
    /// cgroup v1 `blkio.throttle.*`: the number of one device; 0 is no limit.
    DeviceV1(String),
}

impl Form {
    /// The canonical value of a file's text.
    pub(crate) fn canonical(&self, text: &str) -> String {
        match self {
            Self::Plain => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Self::Bracket => {
                let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                inside.map_or_else(|| text.trim().to_owned(), |(word, _)| word.to_owned())
            }
            Self::Mask => mask_set(text).map_or_else(|| text.to_owned(), |set| cpu_list(&set)),
            Self::List => cpu_set(text, u32::MAX).map_or_else(|_| text.to_owned(), |set| cpu_list(&set)),
            Self::LimitV1 => match text.trim().parse::<i64>() {
                // The kernel's "none" is the greatest number of whole pages.
                Ok(limit) if !(0..i64::MAX - (1 << 20)).contains(&limit) => "max".to_owned(),
                _ => text.trim().to_owned(),
            },
            Self::Device(number) => device_line(text, number).unwrap_or_else(|| NO_IO_LIMIT.to_owned()),
            Self::DeviceV1(number) => device_line(text, number).unwrap_or_else(|| "max".to_owned()),
        }
    }

    /// What is written into the file for a canonical value.
    pub(crate) fn text(&self, value: &str) -> String {
        match self {
            Self::Plain | Self::Bracket => value.to_owned(),
            Self::Mask => cpu_set(value, u32::MAX).map_or_else(|_| value.to_owned(), |set| set_mask(&set)),
            Self::List => {
                if value == "none" {
                    String::new()
                } else {
                    value.to_owned()
                }
            }
            Self::LimitV1 => {
                if value == "max" {
                    "-1".to_owned()
                } else {
                    value.to_owned()
                }
            }
            Self::Device(number) => format!("{number} {value}"),
            Self::DeviceV1(number) => format!("{number} {}", if value == "max" { "0" } else { value }),
        }
    }

    /// The words that a file offers.
    pub(crate) fn offered(&self, text: &str) -> Vec<String> {
        match self {
            Self::Bracket => {
                text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A device without a line in `io.max`.
pub(crate) const NO_IO_LIMIT: &str = "rbps=max wbps=max riops=max wiops=max";

fn device_line(text: &str, number: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(number)?.strip_prefix(' '))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts() -> Facts<'static> {
        Facts { cpus: 8, page: 4096, ..Facts::default() }
    }

    #[test]
    fn values_are_checked_by_their_kind_and_come_out_canonical() {
        let ok = |values, text: &str| check(values, text, &facts()).unwrap();
        let whole = Values::Whole { min: 0, max: 4096, step: 4 };
        assert_eq!(ok(whole, " 128 "), "128");
        assert_eq!(ok(Values::Cpus, "0x0f"), "0-3");
        assert_eq!(ok(Values::Cpus, "5,0-1"), "0-1,5");
        assert_eq!(ok(Values::Cpus, "all"), "0-7");
        let four = Facts { online: "0-1,4-5", ..facts() };
        assert_eq!(check(Values::Cpus, "all", &four).as_deref(), Ok("0-1,4-5"), "those that run");
        assert_eq!(check(Values::SomeCpus, "0-3", &four).as_deref(), Ok("0-3"));
        assert_eq!(ok(Values::Cpus, "none"), "none");
        assert_eq!(ok(Values::Limit, "1.5M"), "1572864");
        assert_eq!(ok(Values::CpuMax, "1.5"), "150000 100000");
        assert_eq!(ok(Values::CpuMax, "max"), "max 100000");
        assert_eq!(ok(Values::Word, "16k"), "16384");
        let no = |values, text: &str| check(values, text, &facts()).unwrap_err();
        assert!(no(whole, "333").to_string().contains("steps of 4"), "the kernel would make 332 of it");
        assert!(no(whole, "-4").to_string().contains("0 to 4096"));
        assert!(no(Values::PowerOfTwo { max: 32_768 }, "100").to_string().contains("power of two"));
        assert!(no(Values::Cpus, "8").to_string().contains("no CPU 8"));
        assert!(no(Values::Cpus, "3-0").to_string().contains("3-0"), "it is not none");
        assert!(no(Values::Cpus, "1,3-2").to_string().contains("1,3-2"));
        assert!(no(Values::SomeCpus, "none").to_string().contains("at least one"));
        assert!(no(Values::Limit, "4097").to_string().contains("pages"));
        assert!(no(Values::CpuMax, "1 2").to_string().contains("1000"));
        assert!(no(Values::OneOf(&["0", "1"]), "2").to_string().contains("0, 1"));
        assert!(no(Values::Word, "a\nb").to_string().contains("one line"));
    }

    #[test]
    fn offered_words_are_the_only_ones_and_an_unknown_sysctl_keeps_its_shape() {
        let offered = ["none".to_owned(), "mq-deadline".to_owned()];
        let host = Facts { offered: &offered, now: Some("4096 131072 6291456"), ..facts() };
        assert!(check(Values::Offered, "none", &host).is_ok());
        assert!(check(Values::Offered, "noop", &host).unwrap_err().to_string().contains("none, mq-deadline"));
        assert_eq!(
            check(Values::LikeNow, "4096\t87380 \t4194304", &host).unwrap_err(),
            ValueError::NotOneLine
        );
        assert_eq!(check(Values::LikeNow, "4096  87380 4194304", &host).unwrap(), "4096 87380 4194304");
        assert!(check(Values::LikeNow, "4096", &host).unwrap_err().to_string().contains("as many"));
    }

    #[test]
    fn files_are_read_and_written_in_the_kernels_forms() {
        assert_eq!(Form::Bracket.canonical("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(Form::Bracket.canonical("none"), "none");
        assert_eq!(Form::Mask.canonical("00000000,0000000f"), "0-3");
        assert_eq!(Form::Mask.canonical("0"), "none");
        assert_eq!(Form::Mask.text("0-3,32"), "1,0000000f");
        assert_eq!(Form::LimitV1.canonical("9223372036854771712"), "max");
        assert_eq!(Form::LimitV1.canonical("-1"), "max");
        assert_eq!(Form::LimitV1.text("max"), "-1");
        let device = Form::Device("8:0".into());
        assert_eq!(device.canonical("8:16 rbps=1 wbps=max riops=max wiops=max"), NO_IO_LIMIT);
        assert_eq!(
            device.canonical("8:0 rbps=1 wbps=max riops=max wiops=max"),
            "rbps=1 wbps=max riops=max wiops=max"
        );
        assert_eq!(Form::DeviceV1("8:0".into()).text("max"), "8:0 0");
    }

    proptest! {
        #[test]
        fn a_set_of_cpus_survives_list_and_mask(cpus in proptest::collection::btree_set(0_u32..300, 0..40)) {
            let list = cpu_list(&cpus);
            prop_assert_eq!(&cpu_set(&list, 300).unwrap(), &cpus);
            prop_assert_eq!(&Form::Mask.canonical(&set_mask(&cpus)), &list);
        }
    }
}
