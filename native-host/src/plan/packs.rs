//! The variant packs of one plan, by the addresses that they were made for. Which comes next is guessed: the call before it again, or the one
//! that followed when it was last there, as where layers of one shape take turns.

/// Packs kept for one plan: a network has about as many layers of one shape at most.
const MOST: usize = 64;

/// Packs, and where their tensors are. What a pack is, is the owner's business.
pub(super) struct Packs<T> {
    /// Addresses of one pack.
    width: usize,
    /// Of all packs, one behind the other: what is compared lies together.
    addresses: Vec<usize>,
    made: Vec<T>,
    last: usize,
    /// The slot that the next new pack takes once there are too many.
    oldest: usize,
}

impl<T> Packs<T> {
    /// None yet; each will have so many addresses.
    pub(super) fn new(width: usize) -> Self {
        Self { width, addresses: Vec::new(), made: Vec::new(), last: 0, oldest: 0 }
    }

    /// The slot of the pack for these addresses.
    pub(super) fn find(&mut self, addresses: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let same = |slot: usize| self.addresses[self.place(slot)].iter().copied().eq(addresses.clone());
        let found = (self.last..self.made.len()).chain(0..self.last).find(|&slot| same(slot))?;
        self.last = found;
        Some(found)
    }

    /// Keeps a pack for addresses that have none, in place of the oldest once there are too many.
    pub(super) fn insert(&mut self, addresses: impl Iterator<Item = usize>, pack: T) -> usize {
        if self.made.len() < MOST {
            self.addresses.extend(addresses);
            self.made.push(pack);
            self.last = self.made.len() - 1;
        } else {
            self.last = self.oldest;
            self.oldest = (self.oldest + 1) % MOST;
            let place = self.place(self.last);
            self.addresses[place].iter_mut().zip(addresses).for_each(|(old, new)| *old = new);
            self.made[self.last] = pack;
        }
        self.last
    }

    /// The pack in a slot.
    pub(super) fn get(&self, slot: usize) -> Option<&T> {
        self.made.get(slot)
    }

    fn place(&self, slot: usize) -> std::ops::Range<usize> {
        slot * self.width..(slot + 1) * self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(packs: &mut Packs<usize>, address: usize) -> bool {
        let addresses = [address, 7];
        let found = packs.find(addresses.into_iter());
        let slot = found.unwrap_or_else(|| packs.insert(addresses.into_iter(), address));
        assert_eq!(packs.get(slot), Some(&address), "the pack of these addresses");
        found.is_some()
    }

    #[test]
    fn as_many_sets_of_buffers_as_are_kept_may_take_turns() {
        let mut packs = Packs::new(2);
        for round in 0..3 {
            assert!((0..MOST).all(|address| uses(&mut packs, address) == (round > 0)));
        }
        // One more takes the place of the oldest, and so on around.
        assert!(!uses(&mut packs, MOST) && !uses(&mut packs, 0) && uses(&mut packs, 2) && !uses(&mut packs, 1));
        assert!(uses(&mut packs, MOST) && uses(&mut packs, MOST) && packs.made.len() == MOST);
    }

    #[test]
    fn every_address_counts() {
        let mut packs = Packs::new(2);
        packs.insert([1, 2].into_iter(), ());
        assert_eq!([[1, 2], [1, 3], [2, 2]].map(|addresses| packs.find(addresses.into_iter())), [Some(0), None, None]);
    }
}
