//! A task that panics must not take what it serves along.

use std::panic::AssertUnwindSafe;
use std::task::Poll;

/// What a future comes to, or the words of its panic. What it left half done must not be used again.
pub(super) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => {
                let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
                Poll::Ready(Err(words.unwrap_or_else(|| "a panic without words".to_owned())))
            }
        }
    })
    .await
}
