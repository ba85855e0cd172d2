// Brace patterns in shard lists: "shard-{000..099}.tar", "{a,b}/{0..9}.tar".
//
// The language is that of bash and of Python's braceexpand, which Energon uses: alternatives {a,b},
// integer ranges {0..9}, zero-padded ones {000..099}, letters {a..e}, steps {0..10..2}, nesting,
// and a backslash that makes the next character ordinary. Braces without a comma or a range, such
// as {x}, stay as they are.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

enum class Escapes {
  kRemove,  ///< "\{" gives "{"
  kKeep,    ///< "\{" stays "\{", for patterns that are regular expressions
};

struct ExpandBracesOptions {
  Escapes escapes = Escapes::kRemove;

  /// Maximum number of results. A pattern with more is an error, before any result is produced.
  std::uint64_t max_results = 10'000'000;
};

/// All strings that `pattern` expands to, in order; `pattern` itself if it has no braces. Throws
/// Error: kInvalidArgument if braces do not match or nest deeper than 100, kResourceExhausted above
/// `max_results` or above 4 GiB of text.
std::vector<std::string> expand_braces(std::string_view pattern,
                                       const ExpandBracesOptions& options = {});

/// Patterns for `names`, in order. Neighbors that differ only in one number, which increases by one
/// and keeps its number of digits, become one pattern ("d-0" … "d-11" give "d-{0..9}",
/// "d-{10..11}"). Special characters are escaped, so expanding the result returns `names`.
std::vector<std::string> collapse_names(std::span<const std::string> names);

}  // namespace energon
