// SPDX-License-Identifier: Apache-2.0
// Index arithmetic: integers that are linear in the digits of loop variables.
//
// A loop variable is a digit of its extent. Dividing it splits it into two digits, as in
// `fused // 8` and `fused % 8`, after which both are linear; digits never depend on each other.
#ifndef KOPE_TIR_LINEAR_H_
#define KOPE_TIR_LINEAR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kope {

/*! \brief constant + sum of coefficient * digit; no coefficient is zero. */
struct Linear {
  int64_t constant = 0;
  std::map<int, int64_t> terms;

  Linear Plus(const Linear& other, int64_t factor = 1) const;
  Linear Times(int64_t factor) const { return Linear{}.Plus(*this, factor); }
};

using MaybeLinear = std::optional<Linear>;

/*! \brief Both ends included. */
struct Interval {
  int64_t low;
  int64_t high;
};

class Digits {
 public:
  /*! \brief A new digit, from 0 to `extent` - 1; an extent of less than 1 stands for 1. */
  int Add(int64_t extent);

  /*! \brief The same integer in digits that are not split. */
  Linear Unsplit(const Linear& linear) const;

  /*! \brief Exact quotient and remainder of a floor division; none where they are not linear. */
  std::optional<std::pair<Linear, Linear>> Divide(const Linear& linear, int64_t divisor);

  /*! \brief Least and greatest value, both attained; of digits that are not split. */
  Interval Range(const Linear& linear) const;

  int64_t Extent(int digit) const { return digits_[digit].extent; }

 private:
  struct Digit {
    int64_t extent;
    int64_t radix = 0;  // 0 where not split, else the digit is radix * upper + lower
    int upper = -1;
    int lower = -1;
  };

  bool SplitOne(const Linear& remainder, int64_t divisor);

  std::vector<Digit> digits_;
};

}  // namespace kope

#endif  // KOPE_TIR_LINEAR_H_
