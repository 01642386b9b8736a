//! The page of drop reasons matches the code.

use packet::DropReason;

#[test]
fn drop_reason_page_matches_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/drops.md");
    let mut page = String::from(
        "# Why packets are dropped\n\n\
         Every drop has one reason, with the same name in `switchpath show drops`, in the metrics, in the\n\
         comments of captures and in logs. Names do not change. `switchpath explain --drop REASON` tells the same.\n\n\
         | reason | meaning | what to do |\n|---|---|---|\n",
    );
    for reason in DropReason::ALL {
        page += &format!("| `{}` | {} | {} |\n", reason.name(), reason.explanation().trim(), reason.hint());
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/reference/drops.md is there");
    assert!(written == page, "docs/reference/drops.md is not what the code says: run the test with UPDATE_EXPECT=1");
}
