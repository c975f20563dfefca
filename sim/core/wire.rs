//! A core's end of a link: it runs ahead by the lanes' latency in cycles, then waits for the others.
//!
//! In each cycle the core receives lanes sent at least [`QUANTUM`] cycles before. So cores run [`QUANTUM`] cycles by
//! themselves, on any thread, and then exchange their outputs; the result equals lockstep. A program is a future that
//! is pending while its core waits: [`crate::cluster::lockstep`].

use crate::error::waits;
use crate::link::Lanes;
use ndp_files::Result;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// One cycle less than a channel's latency.
pub const QUANTUM: usize = crate::link::network::LATENCY as usize - 1;

pub type Span = [Lanes; QUANTUM];

#[derive(Debug, Default)]
pub struct Exchange {
    pub sent: Option<Span>,
    pub heard: Option<Span>,
}

#[derive(Debug)]
pub(super) struct Wire {
    exchange: Arc<Mutex<Exchange>>,
    heard: Span,
    sent: Span,
    /// Cycles of the span that are over.
    at: usize,
}

impl Wire {
    pub fn new(exchange: Arc<Mutex<Exchange>>) -> Self {
        Self { exchange, heard: Span::default(), sent: Span::default(), at: QUANTUM }
    }

    /// Exchanges one cycle; `None` if the core has to wait for the others.
    pub fn cycle(&mut self, sent: Lanes) -> Option<Lanes> {
        let heard = *self.heard.get(self.at)?;
        self.sent[self.at] = sent;
        self.at += 1;
        if self.at == QUANTUM {
            self.lock().sent = Some(self.sent);
        }
        Some(heard)
    }

    /// Whether the core may continue; takes the next span at the end of one.
    pub fn is_ready(&mut self) -> bool {
        if self.at == QUANTUM {
            let Some(heard) = self.lock().heard.take() else { return false };
            (self.heard, self.at) = (heard, 0);
        }
        true
    }

    /// Whether the core is at the end of a span, and the others are not.
    pub fn waits(&self) -> bool {
        self.at == QUANTUM && self.lock().heard.is_none()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Exchange> {
        // No holder panics.
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pending once, so that the poller can do something else.
pub(super) async fn pause() {
    let mut paused = false;
    std::future::poll_fn(
        |_| {
            if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }
        },
    )
    .await;
}

/// The result of a future that never waits, in cycle `cycle`.
pub(crate) fn poll_immediate<T>(cycle: u64, future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(waits(cycle)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_hears_what_is_given_and_gives_what_was_sent() {
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        let mut wire = Wire::new(Arc::clone(&exchange));
        assert!(wire.waits() && !wire.is_ready() && wire.cycle([7; 8]).is_none());
        let heard: Span = std::array::from_fn(|i| [i as u32; 8]);
        exchange.lock().unwrap().heard = Some(heard);
        for cycle in 0..QUANTUM {
            assert!(wire.is_ready() && exchange.lock().unwrap().sent.is_none());
            assert_eq!(wire.cycle([100 + cycle as u32; 8]), Some([cycle as u32; 8]));
        }
        assert!(wire.waits() && !wire.is_ready());
        let sent = exchange.lock().unwrap().sent.take();
        assert_eq!(sent, Some(std::array::from_fn(|i| [100 + i as u32; 8])));
    }

    #[test]
    fn only_a_future_that_does_not_pause_is_there_at_once() {
        assert_eq!(poll_immediate(9, async { Ok(3) }).unwrap(), 3);
        let paused = poll_immediate(9, async {
            pause().await;
            Ok(())
        });
        assert_eq!(paused.unwrap_err().to_string(), waits(9).to_string());
    }
}
