//! Where decisions come from: a seed, whose choices look random and are the same everywhere, or bytes of a fuzzer, which steers them.

/// A source of decisions.
pub struct Choices<'a> {
    /// What is left of the fuzzer's bytes; `None` if there is a seed instead.
    bytes: Option<&'a [u8]>,
    state: u64,
}

impl<'a> Choices<'a> {
    /// Choices that look random (SplitMix64).
    pub fn seeded(seed: u64) -> Self {
        Self { bytes: None, state: seed }
    }

    /// The choices for one of the things that are numbered: each has its own, so that it can be made again alone.
    pub fn numbered(seed: u64, number: u64) -> Self {
        let mut choices = Self::seeded(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
        choices.word();
        choices
    }

    /// Choices that bytes make. Beyond their end every choice is the first one.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes: Some(bytes), state: 0 }
    }

    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        if self.bytes.is_some() {
            return self.taken(8);
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number made of so many of the bytes.
    fn taken(&mut self, count: usize) -> u64 {
        let bytes = self.bytes.unwrap_or_default();
        let (taken, rest) = bytes.split_at(count.min(bytes.len()));
        self.bytes = Some(rest);
        taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// A number below a bound, which must be at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        let number = match self.bytes {
            // Few bytes for few possibilities: what a fuzzer changes then changes one decision.
            Some(_) if bound <= 1 << 8 => self.taken(1),
            Some(_) if bound <= 1 << 16 => self.taken(2),
            _ => self.word(),
        };
        (number % bound) as usize
    }

    /// From `least` to `most`, both included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.below((most.saturating_sub(least)).unsigned_abs() as usize + 1) as i64
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        // The first choice is the usual thing.
        self.below(100) >= 100 - chance.min(100)
    }

    /// One of several, of which there must be one.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// An order of so many things.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, last - self.below(last + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_in_range_and_the_same_again() {
        let [mut a, mut b] = [Choices::numbered(7, 9), Choices::numbered(7, 9)];
        let mut seen = [false; 3];
        for _ in 0..1000 {
            let value = a.between(3, 5);
            seen[(value - 3) as usize] = true;
            assert_eq!(value, b.between(3, 5));
        }
        assert_eq!(seen, [true; 3]);
        assert_ne!(Choices::numbered(7, 9).word(), Choices::numbered(7, 10).word());
        let mut order = a.order(6);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        assert!(!a.percent(0) && a.percent(100));
    }

    #[test]
    fn bytes_decide_and_their_end_is_the_usual_thing() {
        let mut choices = Choices::of_bytes(&[2, 0xff, 1]);
        assert_eq!((choices.below(3), choices.percent(50), choices.below(300)), (2, true, 1));
        assert_eq!((choices.below(3), choices.percent(99), choices.word()), (0, false, 0));
        assert_eq!(choices.order(3), [0, 1, 2]);
    }
}
