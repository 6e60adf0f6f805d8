//! Catch panic: a task that panics ends alone; its thread and the other sessions on it go on.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Before something that panicked starts again, so that what always panics does not take a core.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Something panicked; what it said has gone where panics go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// A future that ends with [`Panicked`] instead of taking its thread along. What it shares with others must
/// bear being left in the middle of a poll: everything that uses this shares counters, channels and maps
/// whose every change is one step.
pub(crate) fn caught<F: Future>(future: F) -> CatchPanic<F> {
    CatchPanic(Box::pin(future))
}

/// See [`caught`].
pub(crate) struct CatchPanic<F>(Pin<Box<F>>);

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_panics_is_caught_and_what_ends_has_its_value() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        };
        assert_eq!(caught::<_>(panics).await.map(|(): ()| ()), Err(Panicked));
    }
}
