// SPDX-License-Identifier: Apache-2.0
// SpacemiT's dot products of small matrices (`xsmtvdot`) for Spike, 8-bit elements.
//
// After the public specification of the Integrated Matrix Extension: C[m, n] += A[m, :] . B[n, :];
// A lies in vs1 row by row, B in vs2 column by column, C in vd and vd+1 row by row as int32. At
// 256 bits that is 4x8 times 8x4; lengths whose elements make no square are two matrices.
#include <riscv/extension.h>
#include <riscv/trap.h>

namespace {

constexpr insn_bits_t kMask = 0xfe00707f;
constexpr insn_bits_t kOpcode = 0xe200002b;
enum Signs : insn_bits_t { kUnsigned = 0, kUnsignedSigned = 1, kSignedUnsigned = 2, kSigned = 3 };

reg_t Side(reg_t bits) {
  reg_t side = 2;
  while (4 * side * side * 16 <= bits) side *= 2;
  return side;
}

template <typename Left, typename Right>
reg_t Dot(processor_t* p, insn_t insn, reg_t pc) {
  auto& unit = p->VU;
  reg_t bits = unit.vl->read() * unit.vsew, to = insn.rd();
  bool is_supported = unit.vsew == 8 && unit.vflmul <= 1 && bits >= 128 && (bits & (bits - 1)) == 0;
  if (!is_supported || to % 2) throw trap_illegal_instruction(insn.bits());
  reg_t side = Side(bits), copies = side * side * 16 == bits ? 1 : 2;
  reg_t depth = bits / 8 / copies / side;
  for (reg_t index = 0; index < copies * side * side; ++index) {
    reg_t copy = index / (side * side), row = index / side % side, column = index % side;
    int32_t& sum = unit.elt<int32_t>(to, index, true);
    for (reg_t k = 0; k < depth; ++k)
      sum += unit.elt<Left>(insn.rs1(), (copy * side + row) * depth + k) *
             unit.elt<Right>(insn.rs2(), (copy * side + column) * depth + k);
  }
  return pc + 4;
}

template <typename Left, typename Right>
insn_desc_t Described(Signs signs) {
  auto run = Dot<Left, Right>;
  return {kOpcode | signs << 12, kMask, run, run, run, run, run, run, run, run};
}

struct Ime : extension_t {
  std::vector<insn_desc_t> get_instructions(const processor_t&) override {
    return {Described<uint8_t, uint8_t>(kUnsigned), Described<uint8_t, int8_t>(kUnsignedSigned),
            Described<int8_t, uint8_t>(kSignedUnsigned), Described<int8_t, int8_t>(kSigned)};
  }
  std::vector<disasm_insn_t*> get_disasms(const processor_t*) override { return {}; }
  const char* name() const override { return "smtvdot"; }
};

}  // namespace

REGISTER_EXTENSION(smtvdot, []() { return new Ime; })
