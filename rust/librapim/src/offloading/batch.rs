//! Requests of different lengths that finish at different times.

use ndp_files::{Result, ensure, in_range};
use serde::Serialize;
use std::cmp::Reverse;

/// Longest context.
const MOST_TOKENS: u32 = 1 << 20;
const MOST_REQUESTS: u64 = 1 << 16;

/// A request in decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Tokens in K and V during the next step.
    pub context: u32,
    pub remaining: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    requests: Vec<Request>,
}

impl Batch {
    /// Requests with nothing to generate are dropped. Fails if none or too many are left, or if a context ends outside
    /// 1..=2^20.
    pub fn new(requests: &[Request]) -> Result<Self> {
        in_range("requests", requests.len() as u64, 0, MOST_REQUESTS)?;
        for request in requests {
            in_range("context", request.context, 1, MOST_TOKENS)?;
            let room = MOST_TOKENS - request.context;
            in_range("remaining", request.remaining, 0, room)?;
        }
        let requests: Vec<_> = requests.iter().copied().filter(|request| request.remaining > 0).collect();
        ensure!(!requests.is_empty(), "the batch has no requests that are not finished");
        Ok(Self { requests })
    }

    /// `requests` requests of one length, for one step.
    pub fn uniform(requests: u32, context: u32) -> Result<Self> {
        in_range("requests", requests.into(), 1, MOST_REQUESTS)?;
        Self::new(&vec![Request { context, remaining: 1 }; requests as usize])
    }

    /// Unfinished requests in order of arrival.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Longest first.
    pub fn contexts(&self) -> Vec<u32> {
        let mut contexts: Vec<_> = self.requests.iter().map(|request| request.context).collect();
        contexts.sort_unstable_by_key(|&context| Reverse(context));
        contexts
    }

    /// Two similar groups: requests are dealt alternately, longest first; the first group has the odd one.
    pub fn groups(&self) -> [Vec<u32>; 2] {
        let contexts = self.contexts();
        [0, 1].map(|group| contexts.iter().copied().skip(group).step_by(2).collect())
    }

    /// The next step: contexts grow by one, finished requests leave. `None` if all are finished.
    #[must_use]
    pub fn advanced(&self) -> Option<Self> {
        let step =
            |request: &Request| Request { context: request.context + 1, remaining: request.remaining - 1 };
        let requests: Vec<_> =
            self.requests.iter().map(step).filter(|request| request.remaining > 0).collect();
        (!requests.is_empty()).then_some(Self { requests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_finish_one_by_one() {
        let request = |context, remaining| Request { context, remaining };
        let batch = Batch::new(&[request(5, 2), request(9, 1), request(7, 3), request(1, 0)]).unwrap();
        assert_eq!(batch.groups(), [vec![9, 5], vec![7]]);
        let batch = batch.advanced().unwrap();
        assert_eq!(batch.groups(), [vec![8], vec![6]]);
        let batch = batch.advanced().unwrap();
        assert_eq!(batch.groups(), [vec![9], vec![]]);
        assert!(batch.advanced().is_none());
    }

    #[test]
    fn what_cannot_be_decoded_is_refused() {
        assert!(Batch::new(&[]).is_err());
        assert!(Batch::uniform(0, 5).is_err());
        let error = Batch::uniform(5, 0).unwrap_err().to_string();
        assert_eq!(error, "context = 0 must be in 1..=1048576");
        assert!(Batch::new(&[Request { context: 1 << 20, remaining: 1 }]).is_err());
    }
}
