//! What enters a rank controller next (docs/timing.md, "Intake").

/// Requests that may go before a waiting segment.
const TURN_REQUESTS: u32 = 16;
/// Segments that may go before a waiting request.
const TURN_SEGMENTS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Segment,
    Request,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Turns {
    segments: bool,
    /// Choices of the turn so far.
    run: u32,
}

impl Turns {
    #[inline]
    pub fn choose(&mut self, segment: bool, request: bool) -> Option<Choice> {
        let choice = match (segment, request) {
            (true, true) if self.segments => Choice::Segment,
            (_, true) => Choice::Request,
            (true, false) => Choice::Segment,
            (false, false) => return None,
        };
        match (choice, self.segments) {
            // No request could go: the requests' turn is over if it had begun, and this segment is the first of its
            // own.
            (Choice::Segment, false) if self.run > 0 => (self.segments, self.run) = (true, 1),
            (Choice::Segment, true) => self.count(TURN_SEGMENTS),
            (Choice::Request, false) => self.count(TURN_REQUESTS),
            _ => {}
        }
        Some(choice)
    }

    fn count(&mut self, turn: u32) {
        self.run += 1;
        if self.run == turn {
            (self.segments, self.run) = (!self.segments, 0);
        }
    }
}
