//! Samples of a measurement: the middle, the interval and the tail.

/// A value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) samples: usize,
}

impl Estimate {
    /// A value that was measured once. It has no interval.
    pub(crate) fn once(value: f64) -> Self {
        Estimate { value, low: value, high: value, samples: 1 }
    }

    /// The quotient of two estimates that were not sampled in pairs. Its interval contains every quotient of a value of the first interval and a
    /// value of the second.
    pub(crate) fn over(self, other: Estimate) -> Self {
        Estimate {
            value: self.value / other.value,
            low: self.low / other.high,
            high: self.high / other.low,
            samples: self.samples.min(other.samples),
        }
    }

    /// The difference of two estimates that were not sampled in pairs. Its interval contains every difference of a value of the first interval and a
    /// value of the second.
    pub(crate) fn minus(self, other: Estimate) -> Self {
        Estimate {
            value: self.value - other.value,
            low: self.low - other.high,
            high: self.high - other.low,
            samples: self.samples.min(other.samples),
        }
    }

    /// The estimate in another unit.
    pub(crate) fn times(self, factor: f64) -> Self {
        Estimate {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            samples: self.samples,
        }
    }
}

/// A percentile of a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Percentile {
    P50,
    P99,
    P999,
}

impl Percentile {
    pub(crate) const ALL: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P999];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P99 => "p99",
            Percentile::P999 => "p99.9",
        }
    }

    fn thousandths(self) -> usize {
        match self {
            Percentile::P50 => 500,
            Percentile::P99 => 990,
            Percentile::P999 => 999,
        }
    }
}

/// The smallest number of samples from which a percentile is computed.
pub(crate) const SAMPLES_MIN: usize = 1_000;

/// The error that there are too few samples for a percentile. The field is the number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFew(pub(crate) usize);

impl std::fmt::Display for TooFew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not enough samples: {} of {SAMPLES_MIN}", self.0)
    }
}

impl std::error::Error for TooFew {}

/// Repeated measurements of one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn extend(&mut self, other: &Samples) {
        self.0.extend(&other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The largest sample.
    pub(crate) fn most(&self) -> f64 {
        self.0.iter().copied().max_by(f64::total_cmp).unwrap_or(f64::NAN)
    }

    /// The smallest sample.
    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        nearest_rank(&self.sorted(), 500)
    }

    /// A percentile, by the method of the nearest rank, with the interval by order statistics.
    pub(crate) fn percentile(&self, which: Percentile) -> Result<Estimate, TooFew> {
        let samples = self.0.len();
        if samples < SAMPLES_MIN {
            return Err(TooFew(samples));
        }
        let (sorted, share) = (self.sorted(), which.thousandths() as f64 / 1_000.0);
        // The number of samples below the percentile has a binomial distribution, which for so many samples is close to the normal distribution.
        let (count, around) = (samples as f64, 1.96 * (samples as f64 * share * (1.0 - share)).sqrt());
        let at = |rank: f64| sorted.get(rank.clamp(1.0, count) as usize - 1).copied().unwrap_or(f64::NAN);
        let (low, high) = (at((count * share - around).floor()), at((count * share + around).ceil() + 1.0));
        Ok(Estimate { value: nearest_rank(&sorted, which.thousandths()), low, high, samples })
    }

    /// The median, with the interval by order statistics. If there are fewer than six samples, the interval contains all of them.
    pub(crate) fn middle(&self) -> Estimate {
        let sorted = self.sorted();
        let count = sorted.len();
        let outside = rank_of_interval(count).saturating_sub(1);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (low, high) = (at(outside), at(count.saturating_sub(1 + outside)));
        Estimate { value: nearest_rank(&sorted, 500), low, high, samples: count }
    }

    /// The mean, with the interval by Student's t.
    pub(crate) fn mean(&self) -> Estimate {
        let count = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / count;
        let variance = self.0.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let half = if self.0.len() > 1 { student(self.0.len() - 1) * (variance / count).sqrt() } else { 0.0 };
        Estimate { value: mean, low: mean - half, high: mean + half, samples: self.0.len() }
    }

    /// The quotients of the samples of two series that were measured in turns.
    pub(crate) fn over(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(own, other)| own / other).collect())
    }

    /// The differences of the samples of two series that were measured in turns.
    pub(crate) fn less(&self, other: &Samples) -> Samples {
        self.0.iter().zip(&other.0).map(|(own, other)| own - other).collect()
    }

    /// Half of the interquartile range, relative to the median.
    pub(crate) fn spread(&self) -> f64 {
        let sorted = self.sorted();
        (nearest_rank(&sorted, 750) - nearest_rank(&sorted, 250)) / 2.0 / nearest_rank(&sorted, 500)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Samples(values.into_iter().collect())
    }
}

/// The smallest sample for which at least `thousandths` / 1,000 of all samples are not larger than this sample.
fn nearest_rank(sorted: &[f64], thousandths: usize) -> f64 {
    let rank = (sorted.len() * thousandths).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// The rank of the sample at which the 95 % interval of the median begins. The interval ends at the sample with the same rank, counted from the
/// largest. 0 if there are too few samples.
fn rank_of_interval(count: usize) -> usize {
    // `sum` is the chance that at most `rank` of all samples are below the median: a sum of the binomial distribution.
    let mut chance = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut sum, mut rank) = (chance, 0);
    if chance == 0.0 {
        // There are so many samples that the normal distribution is exact enough.
        return (count as f64 / 2.0 - 0.98 * (count as f64).sqrt()).floor().max(0.0) as usize;
    }
    while sum <= 0.025 && rank < count / 2 {
        rank += 1;
        chance *= (count + 1 - rank) as f64 / rank as f64;
        sum += chance;
    }
    rank
}

/// The 97.5th percentile of Student's t for `freedom` degrees of freedom.
fn student(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // For more than 30 degrees of freedom, the function returns the value for 30, which is larger than the exact value.
    freedom.checked_sub(1).and_then(|at| T.get(at)).copied().unwrap_or(2.042)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(count: usize) -> Samples {
        // The numbers are not sorted. Each number occurs once, because 11 has no common divisor with any count in these tests.
        (0..count).map(|n| ((n * 11 + 3) % count + 1) as f64).collect()
    }

    #[test]
    fn the_nearest_rank_of_ten_samples_is_the_worst_for_p99() {
        let sorted: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(nearest_rank(&sorted, 990), 10.0);
        assert_eq!(nearest_rank(&sorted, 900), 9.0);
        assert_eq!(nearest_rank(&sorted, 901), 10.0);
        assert_eq!(nearest_rank(&sorted, 500), 5.0);
        assert_eq!(nearest_rank(&sorted, 0), 1.0);
        assert!(nearest_rank(&[], 500).is_nan());
    }

    #[test]
    fn a_percentile_of_few_samples_is_refused() {
        assert_eq!(to(999).percentile(Percentile::P99), Err(TooFew(999)));
        let value = |which| to(1_000).percentile(which).map(|found| found.value);
        assert_eq!(value(Percentile::P50), Ok(500.0));
        assert_eq!(value(Percentile::P99), Ok(990.0));
        assert_eq!(value(Percentile::P999), Ok(999.0));
        // The interval of p99.9 of a thousand samples ends with the largest.
        assert_eq!(to(1_000).percentile(Percentile::P999).map(|found| found.high), Ok(1_000.0));
        let middle = to(10_000).percentile(Percentile::P50).unwrap();
        assert_eq!((middle.low, middle.high), (4_902.0, 5_099.0));
        assert_eq!(to(1_000).most(), 1_000.0);
    }

    #[test]
    fn one_stall_in_a_hundred_samples_is_in_the_largest() {
        let mut samples: Samples = (0..1_000).map(|_| 1.0).collect();
        samples.push(250.0);
        assert_eq!(samples.percentile(Percentile::P99).map(|found| found.value), Ok(1.0));
        assert_eq!(samples.most(), 250.0);
    }

    #[test]
    fn the_interval_of_the_median_has_the_ranks_of_the_binomial_distribution() {
        // The expected intervals are from tables of ranks.
        for (count, low, high) in
            [(5, 1.0, 5.0), (6, 1.0, 6.0), (9, 2.0, 8.0), (15, 4.0, 12.0), (21, 6.0, 16.0)]
        {
            let middle = to(count).middle();
            assert_eq!((middle.low, middle.high, middle.samples), (low, high, count), "{count}");
        }
        let many = to(5_000).middle();
        assert!((many.low - 2_431.0).abs() < 3.0 && (many.high - 2_570.0).abs() < 3.0, "{many:?}");
    }

    #[test]
    fn the_interval_of_the_mean_is_by_students_t() {
        let mean = [1.0, 2.0, 3.0].into_iter().collect::<Samples>().mean();
        assert_eq!(mean.value, 2.0);
        assert!((mean.high - 2.0 - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9);
        let one = Samples::from_iter([4.0]).mean();
        assert_eq!((one.low, one.high), (4.0, 4.0));
    }

    #[test]
    fn a_quotient_is_as_uncertain_as_both_of_its_parts() {
        let of = |low: f64, value: f64, high: f64| Estimate { value, low, high, samples: 5 };
        let ratio = of(9.0, 10.0, 12.0).over(of(4.0, 5.0, 6.0));
        assert_eq!((ratio.low, ratio.value, ratio.high), (1.5, 2.0, 3.0));
    }
}
