//! Starts the command line.

use std::process::ExitCode;

use rustix::thread::disable_transparent_huge_pages;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Huge pages keep memory that is not used: a connection would take 22 KiB instead of 14. A kernel that refuses has
    // none to give.
    disable_transparent_huge_pages(true).ok();
    onescribe::cli::run()
}
