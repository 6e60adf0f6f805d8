//! `headroom trial run` on MySQL, ended in every way. On the mysqld that `scripts/mysql-root.sh` brings
//! (`make test-mysql`).

use crate::trial::ends;
use lab::Spec;

#[tokio::test]
async fn however_a_run_ends_every_variable_of_mysql_is_as_it_was_and_it_goes_on() {
    let spec = Spec::new(&[("a", 1)]).program(testkit::mysqld());
    ends::however_it_ends_every_variable_is_as_it_was(&spec).await;
}
