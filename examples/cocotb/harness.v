// The core of `tiny` behind AXI4, with two ranks of the model of examples/icarus at its pins: what cocotb drives. Data and IDs have the widths of the
// configuration.
`timescale 1ns/100fs

module harness (
    clk, dram_clk, rst_n, s_axi_awid, s_axi_awaddr, s_axi_awlen, s_axi_awsize, s_axi_awburst, s_axi_awvalid,
    s_axi_awready, s_axi_wdata, s_axi_wstrb, s_axi_wlast, s_axi_wvalid, s_axi_wready, s_axi_bid, s_axi_bresp,
    s_axi_bvalid, s_axi_bready, s_axi_arid, s_axi_araddr, s_axi_arlen, s_axi_arsize, s_axi_arburst, s_axi_arvalid,
    s_axi_arready, s_axi_rid, s_axi_rdata, s_axi_rresp, s_axi_rlast, s_axi_rvalid, s_axi_rready, broken
);
    `include "params.vh"

    input wire clk;
    input wire dram_clk;
    input wire rst_n;
    input wire [AXI_ID_BITS - 1:0] s_axi_awid;
    input wire [AXI_ADDR_BITS - 1:0] s_axi_awaddr;
    input wire [7:0] s_axi_awlen;
    input wire [2:0] s_axi_awsize;
    input wire [1:0] s_axi_awburst;
    input wire s_axi_awvalid;
    output wire s_axi_awready;
    input wire [AXI_DATA_BITS - 1:0] s_axi_wdata;
    input wire [AXI_DATA_BITS / 8 - 1:0] s_axi_wstrb;
    input wire s_axi_wlast;
    input wire s_axi_wvalid;
    output wire s_axi_wready;
    output wire [AXI_ID_BITS - 1:0] s_axi_bid;
    output wire [1:0] s_axi_bresp;
    output wire s_axi_bvalid;
    input wire s_axi_bready;
    input wire [AXI_ID_BITS - 1:0] s_axi_arid;
    input wire [AXI_ADDR_BITS - 1:0] s_axi_araddr;
    input wire [7:0] s_axi_arlen;
    input wire [2:0] s_axi_arsize;
    input wire [1:0] s_axi_arburst;
    input wire s_axi_arvalid;
    output wire s_axi_arready;
    output wire [AXI_ID_BITS - 1:0] s_axi_rid;
    output wire [AXI_DATA_BITS - 1:0] s_axi_rdata;
    output wire [1:0] s_axi_rresp;
    output wire s_axi_rlast;
    output wire s_axi_rvalid;
    input wire s_axi_rready;
    // Broken rules of both ranks so far.
    output wire [31:0] broken;

    wire [1:0] cs_n, act_n, bg, dq_oe;
    wire [3:0] ba;
    wire [35:0] a;
    wire [255:0] dq_to_rank, dq_from_rank;

    ndp_core_axi_top core (
        .clk_i(clk), .rst_ni(rst_n), .dram_clk_i(dram_clk), .dram_rst_ni(rst_n),
        .s_axi_awid(s_axi_awid), .s_axi_awaddr(s_axi_awaddr), .s_axi_awlen(s_axi_awlen), .s_axi_awsize(s_axi_awsize),
        .s_axi_awburst(s_axi_awburst), .s_axi_awvalid(s_axi_awvalid), .s_axi_awready(s_axi_awready),
        .s_axi_wdata(s_axi_wdata), .s_axi_wstrb(s_axi_wstrb), .s_axi_wlast(s_axi_wlast), .s_axi_wvalid(s_axi_wvalid),
        .s_axi_wready(s_axi_wready),
        .s_axi_bid(s_axi_bid), .s_axi_bresp(s_axi_bresp), .s_axi_bvalid(s_axi_bvalid), .s_axi_bready(s_axi_bready),
        .s_axi_arid(s_axi_arid), .s_axi_araddr(s_axi_araddr), .s_axi_arlen(s_axi_arlen), .s_axi_arsize(s_axi_arsize),
        .s_axi_arburst(s_axi_arburst), .s_axi_arvalid(s_axi_arvalid), .s_axi_arready(s_axi_arready),
        .s_axi_rid(s_axi_rid), .s_axi_rdata(s_axi_rdata), .s_axi_rresp(s_axi_rresp), .s_axi_rlast(s_axi_rlast),
        .s_axi_rvalid(s_axi_rvalid), .s_axi_rready(s_axi_rready),
        .r0_cs_n_o(cs_n[0]), .r0_act_n_o(act_n[0]), .r0_bg_o(bg[0]), .r0_ba_o(ba[1:0]), .r0_a_o(a[17:0]),
        .r0_dq_o(dq_to_rank[127:0]), .r0_dq_oe_o(dq_oe[0]), .r0_dq_i(dq_from_rank[127:0]),
        .r1_cs_n_o(cs_n[1]), .r1_act_n_o(act_n[1]), .r1_bg_o(bg[1]), .r1_ba_o(ba[3:2]), .r1_a_o(a[35:18]),
        .r1_dq_o(dq_to_rank[255:128]), .r1_dq_oe_o(dq_oe[1]), .r1_dq_i(dq_from_rank[255:128]),
        .link_lanes_i({LINK_WORD_BITS{1'b0}}), .link_node_i(4'd0), .link_lanes_o(),
        .parts_busy_o(), .take_o(), .start_o(), .refuse_o(), .select_valid_o(), .select_mask_o(), .busy_o()
    );

    genvar g;
    generate
        for (g = 0; g < 2; g = g + 1) begin : dimm
            ddr4_rank #(.RANK(g)) rank (
                .clk_i(dram_clk), .cs_n_i(cs_n[g]), .act_n_i(act_n[g]), .bg_i(bg[g]), .ba_i(ba[2 * g +: 2]),
                .a_i(a[18 * g +: 18]), .dq_i(dq_to_rank[128 * g +: 128]), .dq_oe_i(dq_oe[g]),
                .dq_o(dq_from_rank[128 * g +: 128])
            );
        end
    endgenerate

    assign broken = dimm[0].rank.errors + dimm[1].rank.errors;
endmodule
