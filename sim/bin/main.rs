//! `ndp`: everything that the project does but writing Verilog, which is `gen-rtl`'s. What it does is in the library `ndp_tool`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    ndp_tool::main()
}
