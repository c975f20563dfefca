//! `gen-rtl`: a configuration in, Verilog out.

fn main() -> std::process::ExitCode {
    ndp_hdl::emit::main()
}
