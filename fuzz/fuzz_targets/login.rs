//! A login: any bytes are read or refused, and what was read is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Login;
use wire::login::{is_ssl_request, opening};

fuzz_target!(|payload: &[u8]| {
    let _ = (is_ssl_request(payload), opening(payload));
    let Ok(login) = Login::parse(payload) else { return };
    let _ = login.attributes().count();
    let written = login.encode();
    // A string that lacked its NUL may hold what the writer takes for its end; then only the first writing
    // may differ.
    let once = Login::parse(&written).expect("what we wrote");
    assert_eq!(Login::parse(&once.encode()), Ok(once.clone()));
});
