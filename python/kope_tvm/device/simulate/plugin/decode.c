// SPDX-License-Identifier: Apache-2.0
// Which registers an instruction reads and writes.
#include "model.h"

static unsigned rd(uint32_t w) { return w >> 7 & 31; }
static unsigned rs1(uint32_t w) { return w >> 15 & 31; }
static unsigned rs2(uint32_t w) { return w >> 20 & 31; }
static unsigned funct3(uint32_t w) { return w >> 12 & 7; }

static void reads(struct insn* insn, unsigned reg, unsigned span) {
  if (reg) insn->sources[insn->num_sources++] = (struct operand){(uint8_t)reg, (uint8_t)span};
}

static void writes(struct insn* insn, unsigned reg, unsigned span) {
  insn->has_result = reg != 0;
  insn->result = (struct operand){(uint8_t)reg, (uint8_t)span};
}

static void set_type(struct insn* insn, uint32_t w) {
  bool is_register = (w >> 25) == 0x40, takes_length = (w >> 30) != 3;
  unsigned lmul = (w >> 20 & 7), sew = w >> 23 & 3;
  insn->kind = is_register ? KIND_SET_UNKNOWN : KIND_SET_TYPE;
  insn->type = (uint8_t)(sew * 7 + (lmul < 4 ? lmul + 3 : lmul - 5));
  if (takes_length) reads(insn, rs1(w), SPAN_ONE);
  writes(insn, rd(w), SPAN_ONE);
}

static bool accumulates(unsigned f3, unsigned f6) {
  bool is_float = f3 == 1 || f3 == 5, is_integer = f3 == 2 || f3 == 6;
  if (f6 >= 0x3c) return is_float || is_integer;
  return (is_float && f6 >= 0x28 && f6 < 0x30) ||
         (is_integer && f6 >= 0x29 && f6 < 0x30 && (f6 & 1));
}

static void vector_arithmetic(struct insn* insn, uint32_t w) {
  unsigned f3 = funct3(w), f6 = w >> 26;
  if (f3 == 7) {
    set_type(insn, w);
    return;
  }
  insn->kind = KIND_VECTOR;
  bool is_wide = (f3 == 1 || f3 == 2 || f3 == 5 || f3 == 6) && f6 >= 0x30;
  bool to_scalar = f6 == 0x10 && (f3 == 1 || f3 == 2);
  bool to_mask = (f6 >= 0x18 && f6 < 0x20) && f3 != 2 && f3 != 6;
  bool is_unary =
      (f3 == 1 && (f6 == 0x12 || f6 == 0x13)) || (f3 == 2 && (f6 == 0x12 || f6 == 0x14));
  reads(insn, V(rs2(w)), SPAN_GROUP);
  if (f3 <= 2 && !to_scalar && !is_unary) reads(insn, V(rs1(w)), SPAN_GROUP);
  if (f3 == 4 || f3 == 6) reads(insn, rs1(w), SPAN_ONE);
  if (f3 == 5) reads(insn, F(rs1(w)), SPAN_ONE);
  if (accumulates(f3, f6)) reads(insn, V(rd(w)), is_wide ? SPAN_WIDE : SPAN_GROUP);
  if (!(w >> 25 & 1)) reads(insn, V(0), SPAN_ONE);
  if (to_scalar)
    writes(insn, f3 == 1 ? F(rd(w)) : rd(w), SPAN_ONE);
  else
    writes(insn, V(rd(w)), to_mask ? SPAN_ONE : is_wide ? SPAN_WIDE : SPAN_GROUP);
}

static void vector_memory(struct insn* insn, uint32_t w, bool is_store) {
  static const uint8_t log2_bytes[8] = {0, 0, 0, 0, 0, 1, 2, 3};
  unsigned mop = w >> 26 & 3, eew = SPAN_OF_EEW + log2_bytes[funct3(w)];
  unsigned data = mop & 1 ? SPAN_GROUP : eew;
  insn->kind = KIND_VECTOR;
  reads(insn, rs1(w), SPAN_ONE);
  if (mop == 2) reads(insn, rs2(w), SPAN_ONE);
  if (mop & 1) reads(insn, V(rs2(w)), eew);
  if (!(w >> 25 & 1)) reads(insn, V(0), SPAN_ONE);
  if (is_store)
    reads(insn, V(rd(w)), data);
  else
    writes(insn, V(rd(w)), data);
}

static void memory(struct insn* insn, uint32_t w, bool is_store, bool is_float) {
  insn->loads = !is_store;
  insn->stores = is_store;
  if (is_float && (funct3(w) == 0 || funct3(w) >= 5)) {
    vector_memory(insn, w, is_store);
    return;
  }
  reads(insn, rs1(w), SPAN_ONE);
  if (is_store)
    reads(insn, is_float ? F(rs2(w)) : rs2(w), SPAN_ONE);
  else
    writes(insn, is_float ? F(rd(w)) : rd(w), SPAN_ONE);
}

static void floats(struct insn* insn, uint32_t w) {
  unsigned group = w >> 27;
  bool from_integer = group == 0x1a || group == 0x1e;
  bool to_integer = group == 0x14 || group == 0x18 || group == 0x1c;
  bool is_unary = from_integer || group == 0x18 || group == 0x1c || group == 0x0b || group == 0x08;
  reads(insn, from_integer ? rs1(w) : F(rs1(w)), SPAN_ONE);
  if (!is_unary) reads(insn, F(rs2(w)), SPAN_ONE);
  writes(insn, to_integer ? rd(w) : F(rd(w)), SPAN_ONE);
}

static void scalars(struct insn* insn, uint32_t w, unsigned num_sources) {
  if (num_sources > 0) reads(insn, rs1(w), SPAN_ONE);
  if (num_sources > 1) reads(insn, rs2(w), SPAN_ONE);
  writes(insn, rd(w), SPAN_ONE);
}

struct insn decode(uint32_t w) {
  struct insn insn = {.costs = costs_of(w)};
  unsigned opcode = w & 0x7f;
  switch (opcode) {
    case 0x03:
    case 0x07:
    case 0x23:
    case 0x27:
      memory(&insn, w, opcode & 0x20, opcode & 4);
      break;
    case 0x57:
      vector_arithmetic(&insn, w);
      break;
    case 0x53:
      floats(&insn, w);
      break;
    case 0x43:
    case 0x47:
    case 0x4b:
    case 0x4f:
      reads(&insn, F(rs1(w)), SPAN_ONE);
      reads(&insn, F(rs2(w)), SPAN_ONE);
      reads(&insn, F(w >> 27), SPAN_ONE);
      writes(&insn, F(rd(w)), SPAN_ONE);
      break;
    case 0x63:
      insn.kind = KIND_BRANCH;
      scalars(&insn, w, 2);
      insn.has_result = false;
      break;
    case 0x67:
    case 0x6f:
      insn.kind = KIND_JUMP;
      scalars(&insn, w, opcode == 0x67);
      break;
    case 0x2f:
      insn.loads = insn.stores = true;
      scalars(&insn, w, 2);
      break;
    case 0x13:
    case 0x1b:
      scalars(&insn, w, 1);
      break;
    case 0x33:
    case 0x3b:
      scalars(&insn, w, 2);
      break;
    case 0x17:
    case 0x37:
      scalars(&insn, w, 0);
      break;
    default:
      break;
  }
  return insn;
}

static uint32_t integer(unsigned f7, unsigned f3, unsigned to, unsigned a, unsigned b,
                        unsigned op) {
  return f7 << 25 | b << 20 | a << 15 | f3 << 12 | to << 7 | op;
}

static uint32_t decompress_arithmetic(uint16_t h, unsigned to, unsigned second) {
  static const uint8_t funct3s[4] = {0, 4, 6, 7};
  unsigned which = h >> 10 & 3, low = h >> 5 & 3;
  if (which == 0) return integer(0, 5, to, to, 1, 0x13);
  if (which == 1) return integer(0x20, 5, to, to, 1, 0x13);
  if (which == 2) return integer(0, 7, to, to, 1, 0x13);
  if (h >> 12 & 1) return integer(low ? 0 : 0x20, 0, to, to, second, 0x3b);
  return integer(low ? 0 : 0x20, funct3s[low], to, to, second, 0x33);
}

static uint32_t decompress_register(uint16_t h, unsigned to, unsigned second) {
  if (!second) return to ? integer(0, 0, h >> 12 & 1, to, 0, 0x67) : 0x00100073;
  return integer(0, 0, to, h >> 12 & 1 ? to : 0, second, 0x33);
}

// The word of the same operation on the same registers; immediates are dropped.
uint32_t decompress(uint16_t h) {
  unsigned to = h >> 7 & 31, second = h >> 2 & 31;
  unsigned short_to = 8 + (h >> 2 & 7), short_from = 8 + (h >> 7 & 7);
  switch ((h & 3) << 3 | h >> 13) {
    case 000:
      return integer(0, 0, short_to, 2, 0, 0x13);
    case 001:
      return integer(0, 3, short_to, short_from, 0, 0x07);
    case 002:
      return integer(0, 2, short_to, short_from, 0, 0x03);
    case 003:
      return integer(0, 3, short_to, short_from, 0, 0x03);
    case 005:
      return integer(0, 3, 0, short_from, short_to, 0x27);
    case 006:
      return integer(0, 2, 0, short_from, short_to, 0x23);
    case 007:
      return integer(0, 3, 0, short_from, short_to, 0x23);
    case 010:
      return integer(0, 0, to, to, 0, 0x13);
    case 011:
      return integer(0, 0, to, to, 0, 0x1b);
    case 012:
      return integer(0, 0, to, 0, 0, 0x13);
    case 013:
      return to == 2 ? integer(0, 0, 2, 2, 0, 0x13) : integer(0, 0, to, 0, 0, 0x37);
    case 014:
      return decompress_arithmetic(h, short_from, short_to);
    case 015:
      return integer(0, 0, 0, 0, 0, 0x6f);
    case 016:
      return integer(0, 0, 0, short_from, 0, 0x63);
    case 017:
      return integer(0, 1, 0, short_from, 0, 0x63);
    case 020:
      return integer(0, 1, to, to, 1, 0x13);
    case 021:
      return integer(0, 3, to, 2, 0, 0x07);
    case 022:
      return integer(0, 2, to, 2, 0, 0x03);
    case 023:
      return integer(0, 3, to, 2, 0, 0x03);
    case 024:
      return decompress_register(h, to, second);
    case 025:
      return integer(0, 3, 0, 2, second, 0x27);
    case 026:
      return integer(0, 2, 0, 2, second, 0x23);
    case 027:
      return integer(0, 3, 0, 2, second, 0x23);
    default:
      return 0x13;
  }
}
