//! How the relays of a source share its lanes: each has a number that it may hold, and all compute the
//! same numbers from the same table. Nobody assigns lanes: a relay takes free ones while it is below
//! its share and hands surplus over while somebody else is below theirs.

use crate::lane::{Owner, Survey};

/// How many of `survey`'s lanes `me` may hold. Shares differ by at most one and sum up to all lanes.
pub fn share(me: &Owner, survey: &Survey) -> usize {
    let mut relays: Vec<&Owner> = survey.relays.iter().collect();
    if !relays.contains(&me) {
        relays.push(me);
    }
    relays.sort();
    relays.dedup();
    let rank = relays.iter().position(|relay| *relay == me).unwrap_or(0);
    let (lanes, count) = (survey.lanes.len(), relays.len());
    lanes / count + usize::from(rank < lanes % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::{Generation, LaneId, LaneRow};

    fn survey(lanes: usize, relays: &[&str]) -> Survey {
        let lane = |i: usize| LaneRow {
            lane: LaneId(i as i16),
            slots: 0..=255,
            owner: None,
            generation: Generation(0),
            expires_at_us: None,
            claimable: true,
        };
        let owner = |name: &&str| Owner((*name).into());
        Survey { lanes: (0..lanes).map(lane).collect(), relays: relays.iter().map(owner).collect() }
    }

    #[test]
    fn shares_cover_all_lanes_and_differ_by_one() {
        for lanes in 0..20 {
            for names in [&["a"][..], &["a", "b"], &["c", "a", "b"], &["a", "b", "c", "d", "e"]] {
                let survey = survey(lanes, names);
                let shares: Vec<usize> = names.iter().map(|n| share(&Owner((*n).into()), &survey)).collect();
                assert_eq!(shares.iter().sum::<usize>(), lanes, "{names:?}");
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{names:?} {shares:?}");
            }
        }
    }

    #[test]
    fn a_relay_without_a_heartbeat_yet_counts_itself() {
        assert_eq!(share(&Owner("b".into()), &survey(8, &["a"])), 4);
        assert_eq!(share(&Owner("a".into()), &survey(8, &[])), 8);
    }
}
