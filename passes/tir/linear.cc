// SPDX-License-Identifier: Apache-2.0
#include "tir/linear.h"

#include <algorithm>
#include <cstdlib>

namespace kope {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

Linear Linear::Plus(const Linear& other, int64_t factor) const {
  Linear sum = *this;
  sum.constant += factor * other.constant;
  for (const auto& [digit, coefficient] : other.terms) {
    int64_t& total = sum.terms[digit];
    total += factor * coefficient;
    if (total == 0) sum.terms.erase(digit);
  }
  return sum;
}

int Digits::Add(int64_t extent) {
  digits_.push_back({std::max<int64_t>(extent, 1)});
  return static_cast<int>(digits_.size()) - 1;
}

Linear Digits::Unsplit(const Linear& linear) const {
  Linear result{linear.constant, {}};
  for (const auto& [digit, coefficient] : linear.terms) {
    const Digit& split = digits_[digit];
    if (split.radix == 0) {
      if (split.extent > 1) result = result.Plus({0, {{digit, coefficient}}});
      continue;
    }
    Linear parts{0, {{split.upper, split.radix}, {split.lower, 1}}};
    result = result.Plus(Unsplit(parts), coefficient);
  }
  return result;
}

std::optional<std::pair<Linear, Linear>> Digits::Divide(const Linear& linear, int64_t divisor) {
  if (divisor <= 0) return std::nullopt;
  while (true) {
    Linear whole = Unsplit(linear);
    Linear quotient{FloorDiv(whole.constant, divisor), {}};
    for (const auto& [digit, coefficient] : whole.terms) {
      if (coefficient % divisor == 0) quotient.terms[digit] = coefficient / divisor;
    }
    Linear remainder = whole.Plus(quotient, -divisor);
    Interval range = Range(remainder);
    if (range.low >= 0 && range.high < divisor) return std::pair(quotient, remainder);
    if (!SplitOne(remainder, divisor)) return std::nullopt;
  }
}

bool Digits::SplitOne(const Linear& remainder, int64_t divisor) {
  for (const auto& [digit, coefficient] : remainder.terms) {
    int64_t step = std::abs(coefficient);
    if (divisor % step != 0) continue;
    int64_t radix = divisor / step;
    int64_t extent = digits_[digit].extent;
    if (radix <= 1 || extent <= radix || extent % radix != 0) continue;
    int upper = Add(extent / radix);
    int lower = Add(radix);
    digits_[digit].radix = radix;
    digits_[digit].upper = upper;
    digits_[digit].lower = lower;
    return true;
  }
  return false;
}

Interval Digits::Range(const Linear& linear) const {
  Interval range{linear.constant, linear.constant};
  for (const auto& [digit, coefficient] : linear.terms) {
    int64_t reach = coefficient * (digits_[digit].extent - 1);
    (reach < 0 ? range.low : range.high) += reach;
  }
  return range;
}

}  // namespace kope
