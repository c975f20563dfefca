//! The multiplier unit's inputs outside of the lanes' turns, in Icarus: they must have no effect.
//! `testbenches/arithmetic/multiplier_unit.rs` tests its results.

use crate::common;
use ndp_config::DesignConfig;
use ndp_hdl::designs::build;

/// Two units with the same operands. The second one's `broadcast_i` is high, too, in the phases in which no lane takes an operand,
/// with any scalar. Prints how many digits and flags were compared and how many differ.
const BENCH: &str = r#"
module bench;
    reg clk = 0;
    reg [10:0] phase = 1;
    reg [127:0] w, x;
    reg [15:0] scalar;
    reg [63:0] state = 1;
    wire quiet = QUIET;
    wire [25:0] digit_a, digit_b;
    wire [2:0] flags_a, flags_b;
    UNIT a (.clk_i(clk), .phase_i(phase), .w_i(w), .x_i(x), .broadcast_i(1'b0), .scalar_i(16'd0), .separate_i(1'b0),
        .import_i(1'b0), MOVES, .term_moves_i(1'b1), .sum_moves_i(1'b1),
        .sum_i(110'd0), .digit_o(digit_a), .flags_o(flags_a), .sum_o());
    UNIT b (.clk_i(clk), .phase_i(phase), .w_i(w), .x_i(x), .broadcast_i(quiet), .scalar_i(scalar), .separate_i(1'b0),
        .import_i(1'b0), MOVES, .term_moves_i(1'b1), .sum_moves_i(1'b1),
        .sum_i(110'd0), .digit_o(digit_b), .flags_o(flags_b), .sum_o());
    integer window, p, i, digits = 0, wrong_digits = 0, wrong_flags = 0, windows = 0;
    reg lost = 0;
    task draw;
        // Knuth's linear congruential generator.
        state = state * 64'd6364136223846793005 + 64'd1442695040888963407;
    endtask
    initial begin
        for (window = 0; window < 200; window = window + 1) begin
            for (i = 0; i < 8; i = i + 1) begin
                // Finite numbers of any sign; recoding leaves them as they are.
                draw; w[16 * i +: 16] = {state[63], 1'b0, state[61:48]};
                draw; x[16 * i +: 16] = {state[63], 1'b0, state[61:48]};
            end
            for (p = 0; p < 11; p = p + 1) begin
                phase = 1 << p;
                draw; scalar = state[63:48];
                #1;
                // Digit k of the window before is read in phase 9 + k: 9, 10, 0, 1.
                if (window > 2 && (p >= 9 || p <= 1)) begin
                    if (p == 9) lost = 0;
                    digits = digits + 1;
                    if (digit_a !== digit_b) begin
                        wrong_digits = wrong_digits + 1;
                        lost = 1;
                    end
                    if (p == 1) begin
                        windows = windows + lost;
                        if (flags_a !== flags_b) wrong_flags = wrong_flags + 1;
                    end
                end
                clk = 1; #1; clk = 0; #1;
            end
        end
        $display("%0d digits: %0d differ in %0d windows, flags in %0d", digits, wrong_digits, windows, wrong_flags);
        $finish;
    end
endmodule
"#;

#[test]
fn a_broadcast_outside_of_the_lanes_turns_changes_no_sum() {
    for (multiplier, quiet, moves) in [
        ("bit-serial", "|phase[10:8]", ".lanes_move_i(8'hff), .line_moves_i(1'b1)"),
        ("digit-serial", "|phase[10:8]", ".lanes_move_i(8'hff), .line_moves_i(1'b1)"),
        ("shared-parallel", "|phase[9:7]", ".operands_move_i(1'b1)"),
    ] {
        let config = format!("name = \"unit\"\n[gemv]\nmultiplier = \"{multiplier}\"\n");
        let design = build(&DesignConfig::from_toml(&config).unwrap(), "multiplier_unit").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let bench =
            BENCH.replace("UNIT", design.top().name()).replace("QUIET", quiet).replace("MOVES", moves);
        std::fs::write(folder.path().join("bench.v"), design.verilog() + &bench).unwrap();
        common::run(
            "iverilog",
            "iverilog",
            &["-g2005", "-s", "bench", "-o", "bench.vvp", "bench.v"],
            folder.path(),
        );
        let printed = common::run("vvp", "iverilog", &["-n", "bench.vvp"], folder.path());
        assert_eq!(printed, "788 digits: 0 differ in 0 windows, flags in 0\n", "{multiplier}");
    }
}
