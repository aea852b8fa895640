//! Random numbers that are the same everywhere: SplitMix64. Nothing about problems.

/// A source of numbers.
pub struct Source(u64);

impl Source {
    /// Of one problem of a seed: every problem has its own, so that it can be made again alone.
    pub fn of(seed: u64, number: u64) -> Self {
        let mut source = Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
        source.next();
        source
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `least` to `most`, both included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + (self.next() % (most.saturating_sub(least) as u64 + 1)) as usize
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.between(0, 99) < chance
    }

    /// One of several; of none it cannot be asked.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() - 1)]
    }

    /// An order of so many things.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let other = self.between(0, last);
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_range_and_the_same_again() {
        let [mut a, mut b] = [Source::of(7, 9), Source::of(7, 9)];
        for _ in 0..1000 {
            let value = a.between(3, 5);
            assert!((3..=5).contains(&value));
            assert_eq!(value, b.between(3, 5));
        }
        let mut order = a.order(6);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        assert!(!a.percent(0) && a.percent(100));
    }
}
