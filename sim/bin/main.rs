//! `ndp`: the program around the library `ndp_tool`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    ndp_tool::main()
}
