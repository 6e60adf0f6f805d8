//! The user's prices: none is built in. A month, in one currency.
//!
//! ```toml
//! currency = "EUR"
//! core = 11.0            # one core more
//! gib = 3.5              # one GiB of memory more
//! reader = 290.0         # one more replica
//! disk = 45.0            # the other disk of headroom plan disks, more than the present one
//! zone_gb = 0.02         # a GB between zones, both directions together
//! trend_a_year = -0.1    # what prices do: -10 % a year
//! ```

use crate::file::{self, FileError, Mistake};
use serde::Deserialize;
use std::path::Path;

/// What things cost; what is not named is not priced.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    #[serde(default)]
    pub currency: String,
    pub core: Option<f64>,
    pub gib: Option<f64>,
    pub reader: Option<f64>,
    pub disk: Option<f64>,
    pub zone_gb: Option<f64>,
    pub trend_a_year: Option<f64>,
}

impl Prices {
    /// Those of a file; without one nothing is priced.
    ///
    /// # Errors
    /// It cannot be read, or what is wrong in it.
    pub fn read(path: Option<&Path>) -> Result<Self, FileError> {
        let Some(path) = path else { return Ok(Self::default()) };
        Self::parse(&file::read(path)?, &path.display().to_string())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn parse(text: &str, name: &str) -> Result<Self, FileError> {
        let prices = toml::from_str::<Self>(text).map_err(Mistake::from);
        prices.and_then(Self::check).map_err(FileError::wrong(name))
    }

    fn check(self) -> Result<Self, Mistake> {
        let all = [self.core, self.gib, self.reader, self.disk, self.zone_gb];
        if all.iter().flatten().any(|price| !price.is_finite() || *price < 0.0) {
            return Err(Mistake::Price);
        }
        match self.trend_a_year {
            Some(trend) if !(trend > -1.0 && trend < 10.0) => Err(Mistake::Trend { trend }),
            _ => Ok(self),
        }
    }

    /// What waiting these days saves (or costs, below 0) of a price, by the trend.
    pub fn saved_by_waiting(&self, price: f64, days: f64) -> Option<f64> {
        let trend = self.trend_a_year?;
        Some(price * (1.0 - (1.0 + trend).powf(days / 365.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_the_users_and_waiting_follows_the_trend() {
        let prices = Prices::parse("core = 11.0\ntrend_a_year = -0.1", "p.toml").unwrap();
        assert!((prices.saved_by_waiting(100.0, 365.0).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(Prices::default().saved_by_waiting(100.0, 365.0), None);
        let wrong = |text: &str| Prices::parse(text, "p.toml").unwrap_err().to_string();
        assert!(
            wrong("cpu = 1.0").starts_with("p.toml: TOML parse error at line 1"),
            "{}",
            wrong("cpu = 1.0")
        );
        assert_eq!(wrong("core = -1.0"), "p.toml: a price is below 0");
        assert!(wrong("trend_a_year = -10.0").contains("such as -0.1 for 10 % less"));
    }
}
