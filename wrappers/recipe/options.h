// The table of options: one row for each option of data, standard pipelines and loaders that has a
// plain value (functions, handlers and hooks have none).
//
// A row contains the name of the option, the member that it sets, its meaning, and the values that
// it takes. Everything that treats options alike follows from the rows: the flags of the program
// with their help, the refusal of options that do not fit, the options of the Python package, the
// names in error messages, and docs/reference/options.md. HACKING.md shows how to add an option.

#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "energon/worker/loader_options.h"
#include "io/option_text.h"
#include "io/recipe/shuffle_over_epochs.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/pipeline.h"

namespace energon {

/// The structs that the rows set.
struct AllOptions {
  DataOptions data = {};
  /// ValOptions are a part of these, and `limit` (val_options_of()).
  TrainOptions train = {};
  std::optional<std::int64_t> limit = std::nullopt;  ///< ValOptions::limit
  LoaderOptions loader = {};
};

/// The options of a pipeline for validation: those that it shares with one for training, and
/// `limit`.
ValOptions val_options_of(const AllOptions& options);

// --- Rows ---

/// An enum of which each value has a name.
struct ChoiceMember {
  std::string_view type;                    ///< name of the enum
  std::span<const std::string_view> names;  ///< of the values 0, 1, …
  std::uint8_t* value;                      ///< the member itself
};

/// The member that a row sets.
using OptionMember = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, std::optional<int>*,
                                  std::optional<std::int64_t>*, std::string*,
                                  std::optional<std::string>*, std::vector<std::string>*,
                                  std::chrono::milliseconds*, ShuffleOverEpochs*, ChoiceMember>;

/// The heading under which --help and the reference show an option.
enum class OptionGroup : std::uint8_t {
  kData,
  kLayout,
  kOrder,
  kBatches,
  kEpochs,
  kFailures,
  kWorkers,
  kCheckpoints,
  kLogs,
};
inline constexpr int kOptionGroups = 9;
std::string_view heading(OptionGroup group);

/// Pipelines that have a use for an option.
enum class OptionUse : std::uint8_t { kBoth, kTrain, kVal };

/// Values of numbers, both included: bytes and milliseconds for sizes and times.
struct OptionRange {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

struct OptionRow {
  std::string_view name;  ///< in snake_case, as in the configurations of pipelines and loaders
  std::string_view path;  ///< of the member in AllOptions
  OptionMember (*member)(AllOptions& options);
  std::string_view standard;  ///< the default, as option_value() prints it
  std::string_view unit;      ///< "bytes", "samples", or "" without a unit
  OptionGroup group;
  std::string_view sentence;  ///< what the option does, without a full stop
  std::string_view stage;     ///< where it takes effect
  OptionUse use = OptionUse::kBoth;
  /// Whether another value gives other samples or batches, or the same in another order.
  bool affects_order = false;
  OptionRange range = {};
  /// The flag without --, where it differs from the name. Empty: the program does not have it.
  std::optional<std::string_view> flag = std::nullopt;
  /// The keyword of Python's functions, where it differs from the name. Empty: there is none.
  std::optional<std::string_view> keyword = std::nullopt;
};

/// All rows, group by group.
std::span<const OptionRow> option_rows();

/// The row with this name; null if there is none.
const OptionRow* find_option(std::string_view name);

/// Whether a pipeline of kind `use` (kTrain or kVal) has a use for the option.
bool fits(const OptionRow& row, OptionUse use);

/// Whether LoaderOptions have the option; otherwise, the data or the pipeline.
bool is_of_loader(const OptionRow& row);

/// How `caller` spells the option, such as "--batch-size". Empty if `caller` does not have it.
/// Flags that turn off what is on by default are "--no-repeat".
std::string spelled(const OptionRow& row, OptionCaller caller);

/// The type in C++, such as "std::optional<std::int64_t>".
std::string type_name(const OptionRow& row);

/// The struct and its member, such as "TrainOptions::batch_size".
std::string member_name(const OptionRow& row);

/// `message` with the names of options replaced by what `caller` calls them. A name inside a longer
/// word, a path or a quoted key stays.
std::string with_option_names(std::string_view message, OptionCaller caller);

// --- Values ---

/// The values that `row` takes, such as "a whole number of at least 1".
std::string expected_value(const OptionRow& row);

/// Sets the member from text; a list gets one more entry. false, and nothing is set, if `text` is
/// not a value of the option.
bool set_option(AllOptions& options, const OptionRow& row, std::string_view text);

/// The value as text that set_option() understands; for a list, entries with commas between them.
std::string option_value(AllOptions& options, const OptionRow& row);

}  // namespace energon
