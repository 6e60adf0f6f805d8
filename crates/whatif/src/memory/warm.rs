//! Warm: whether what a pool misses is what it will go on to miss, or falls as the pool fills.

/// This many windows in a row must agree, and their mean with that of as many before them.
const WARM_WINDOWS: usize = 3;
/// Windows until a pool can be seen to be warm, at the earliest.
pub(super) const WARM_LEAST: u32 = 2 * WARM_WINDOWS as u32;
/// Free pages that are more than this share of a pool, and more than servers keep free for what comes next
/// (128 MiB of MySQL's eight instances, twice that to be sure), are such as were never used.
const FREE_SHARE: f64 = 0.10;
const FREE_PAGES: f64 = 16_384.0;
/// Whoever misses no more than this may fill its pool for hours, and its miss ratio falls by no more.
const LITTLE: f64 = 0.005;

/// Whether the last windows agree in their miss ratio to a tenth, or to half a percent, and their mean is not
/// below that of the windows before them by more than a twentieth, or a quarter of a percent. The second sees
/// a slow fall, whose neighbours always agree.
pub fn is_warm(miss_ratios: &[f64]) -> bool {
    let Some(both) = miss_ratios.len().checked_sub(2 * WARM_WINDOWS).map(|from| &miss_ratios[from..]) else {
        return false;
    };
    let (before, last) = both.split_at(WARM_WINDOWS);
    let mean = |windows: &[f64]| windows.iter().sum::<f64>() / windows.len() as f64;
    let most = last.iter().copied().fold(f64::MIN, f64::max);
    let least = last.iter().copied().fold(f64::MAX, f64::min);
    let falls = mean(before) - mean(last);
    most - least <= (0.1 * most).max(0.005) && falls <= (0.05 * mean(before)).max(0.0025)
}

/// Whether a pool with these pages, some of them free, still fills with what it misses. The miss ratio of a
/// large one falls slowly and seems steady: of 64 GiB, a disk that reads 100 MB/s brings 2 % in 15 s.
pub(super) fn is_filling(free: f64, pages: f64, misses: f64) -> bool {
    free > FREE_PAGES && free > FREE_SHARE * pages && misses > LITTLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_warm_when_its_miss_ratio_neither_scatters_nor_falls() {
        assert!(!is_warm(&[0.2; 5]));
        assert!(!is_warm(&[0.5, 0.4, 0.3, 0.3, 0.2, 0.2]));
        assert!(is_warm(&[0.9, 0.21, 0.2, 0.205, 0.21, 0.2, 0.205]));
        // As seen after a shrink: each window agrees with the one before, and all of them fall.
        assert!(!is_warm(&[0.1153, 0.1002, 0.0987, 0.0969, 0.0960, 0.0950]));
        assert!(is_warm(&[0.004, 0.003, 0.002, 0.002, 0.001, 0.0]), "next to nothing is next to nothing");
    }

    #[test]
    fn a_large_pool_that_fills_slowly_is_not_taken_for_a_full_one() {
        // 64 GiB under uniform reads of as much: what is missed falls by 0.7 % a window of 5 s.
        let falling: Vec<f64> = (0..6).map(|window| 0.97 - 0.007 * f64::from(window)).collect();
        let pages = f64::from(1 << 22);
        assert!(is_warm(&falling) && is_filling(0.95 * pages, pages, 0.93));
        assert!(!is_filling(8_192.0, pages, 0.3), "full: these are kept free for what comes next");
        assert!(!is_filling(1_536.0, 4_096.0, 0.3), "of a small one that is a third");
        assert!(!is_filling(0.8 * pages, pages, 0.001), "all that is used fits");
    }
}
