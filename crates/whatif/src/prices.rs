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

use crate::file::{self, FileError};
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
        Self::parse(&file::read(path)?, &path.display().to_string()).map_err(FileError::Wrong)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with the place.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        let prices: Self = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        let all = [prices.core, prices.gib, prices.reader, prices.disk, prices.zone_gb];
        if all.iter().flatten().any(|price| !price.is_finite() || *price < 0.0) {
            return Err(format!("{name}: a price is below 0"));
        }
        if prices.trend_a_year.is_some_and(|trend| !(trend > -1.0 && trend < 10.0)) {
            return Err(format!("{name}: trend_a_year is a share, such as -0.1 for 10 % less each year"));
        }
        Ok(prices)
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
        assert!(Prices::parse("cpu = 1.0", "p.toml").unwrap_err().contains("p.toml"));
        assert!(Prices::parse("core = -1.0", "p.toml").unwrap_err().contains("below 0"));
    }
}
