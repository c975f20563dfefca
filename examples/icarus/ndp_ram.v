// Stand-ins for the two RAM cells that `NDP_RAM_MACRO` asks for: what an integrator replaces by wrappers around the macros of a library.
// The shapes of a design are the list `rams` of params.json.

// One clock. A read of the word that is being written gives the old one; what was read stays until the next read.
module ndp_ram_1clk #(
    parameter DEPTH = 2,
    parameter WIDTH = 1,
    parameter LANES = 1,
    parameter ADDRESS = $clog2(DEPTH)
) (
    input wire clk_i,
    input wire [ADDRESS - 1:0] raddr_i,
    input wire re_i,
    input wire [ADDRESS - 1:0] waddr_i,
    input wire [LANES - 1:0] we_i,
    input wire [WIDTH - 1:0] wdata_i,
    output reg [WIDTH - 1:0] rdata_o
);
    localparam PART = WIDTH / LANES;
    reg [WIDTH - 1:0] words [0:DEPTH - 1];
    integer lane;
    always @(posedge clk_i) begin
        if (re_i) rdata_o <= words[raddr_i];
        for (lane = 0; lane < LANES; lane = lane + 1)
            if (we_i[lane]) words[waddr_i][lane * PART +: PART] <= wdata_i[lane * PART +: PART];
    end
endmodule

// A clock for each port. No word is read while it is being written.
module ndp_ram_2clk #(
    parameter DEPTH = 2,
    parameter WIDTH = 1,
    parameter LANES = 1,
    parameter ADDRESS = $clog2(DEPTH)
) (
    input wire write_clk_i,
    input wire read_clk_i,
    input wire [LANES - 1:0] we_i,
    input wire [ADDRESS - 1:0] waddr_i,
    input wire [WIDTH - 1:0] wdata_i,
    input wire re_i,
    input wire [ADDRESS - 1:0] raddr_i,
    output reg [WIDTH - 1:0] rdata_o
);
    localparam PART = WIDTH / LANES;
    reg [WIDTH - 1:0] words [0:DEPTH - 1];
    integer lane;
    always @(posedge write_clk_i)
        for (lane = 0; lane < LANES; lane = lane + 1)
            if (we_i[lane]) words[waddr_i][lane * PART +: PART] <= wdata_i[lane * PART +: PART];
    always @(posedge read_clk_i)
        if (re_i) rdata_o <= words[raddr_i];
endmodule
