//! Hot neurons for statistics: the 4-bit state of Hermes, section IV-C.

/// Largest state.
pub const MAX_STATE: u8 = 15;
/// A neuron is hot while its state is above this.
pub const HOT_ABOVE: u8 = 10;
/// Gain of an active neuron.
const GAIN: u8 = 4;

/// State after a prefill of `tokens` tokens, `active` of them active: 0 below 2 %, 15 above 90 %. The paper only gives
/// these two; the other 14 stages are equally wide.
pub fn initial_state(active: u32, tokens: u32) -> u8 {
    // In percent of the tokens, exact: 14 stages lie between 2 and 90.
    let (active, tokens) = (u64::from(active) * 100, u64::from(tokens));
    if active < 2 * tokens {
        0
    } else if active > 90 * tokens {
        MAX_STATE
    } else {
        1 + ((active - 2 * tokens) * 14 / (88 * tokens).max(1)).min(13) as u8
    }
}

/// The state after one more token.
pub fn next_state(state: u8, active: bool) -> u8 {
    if active { (state + GAIN).min(MAX_STATE) } else { state.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_are_those_of_the_paper() {
        assert_eq!(
            [0, 1, 2, 89, 90, 91, 100].map(|active| initial_state(active, 100)),
            [0, 0, 1, 14, 14, 15, 15]
        );
        assert_eq!([64, 65].map(|active| initial_state(active, 100)), [10, 11]);
        assert_eq!((next_state(7, true), next_state(10, false)), (11, 9)); // Fig. 7a
        assert_eq!((next_state(14, true), next_state(0, false)), (15, 0));
    }
}
