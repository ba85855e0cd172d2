// energon options: the table of options, for people, for programs, and as
// docs/reference/options.md.

#include "wrappers/recipe/options.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "io/error.h"
#include "io/option_text.h"

namespace energon::cli {
namespace {

struct OptionsFlags {
  std::string name;
  bool is_json = false;
  bool is_markdown = false;
};

std::string pipelines_of(const OptionRow& row) {
  switch (row.use) {
    case OptionUse::kBoth:
      return "train, val";
    case OptionUse::kTrain:
      return "train";
    case OptionUse::kVal:
      return "val";
  }
  return "";
}

std::string keyword_of(const OptionRow& row) { return std::string(row.keyword.value_or(row.name)); }

// --- JSON ---

nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

nlohmann::ordered_json json_of(const OptionRow& row) {
  nlohmann::ordered_json json;
  json["name"] = row.name;
  json["group"] = heading(row.group);
  json["description"] = row.sentence;
  json["values"] = expected_value(row);
  json["default"] = row.standard;
  json["unit"] = or_null(std::string(row.unit));
  json["stage"] = row.stage;
  json["train"] = fits(row, OptionUse::kTrain);
  json["val"] = fits(row, OptionUse::kVal);
  json["affects_order"] = row.affects_order;
  json["flag"] = or_null(spelled(row, OptionCaller::kCommandLine));
  json["keyword"] = or_null(keyword_of(row));
  json["member"] = member_name(row);
  json["type"] = type_name(row);
  return json;
}

// --- Markdown ---

constexpr std::string_view kPageBegin =
    R"(# Options

Every option of data, standard pipelines and loaders with a plain value. Functions, error handlers and hooks are not in the table: see
`wrappers/recipe/task_encoder.h` and [pipelines](../pipelines.md).

This page is printed by `energon options --markdown` from the table in `wrappers/recipe/options.cpp`, which the program's flags and the Python
package also follow; a test compares it. `energon options NAME` explains one option, `energon options --json` is for programs.

* **Sizes** are bytes. As strings, they may have a unit: `4096`, `16KiB`, `512MiB`, `2GiB`.
* **Times** are seconds. As strings, they may have a unit: `60`, `500ms`, `5min`, `2h`; `none` means no limit. C++ takes `std::chrono`
  durations.
* A default of `none` means unset: `std::nullopt`, an empty string or list, `None`.
* **Order**: whether a different value changes the samples, the batches or their order. With `logical_shards`, ranks and workers do not
  ([rescaling](../rescaling.md)).
* **Pipelines**: training, validation, or both. `ValOptions` has the members of `TrainOptions` that apply to both. The program refuses
  options of training with `--mode val`.
)";

std::string in_code(const std::string& text) {
  return text.empty() ? "" : fmt::format("`{}`", text);
}

std::string markdown_row(const OptionRow& row) {
  const std::string unit = row.unit.empty() || row.unit == "bytes" || row.unit == "seconds"
                               ? ""
                               : fmt::format(" ({})", row.unit);
  return fmt::format(
      "| `{}` | `{}`{} | {} | {} | {} | `{}` | {} | {} | {} |\n", row.name, row.standard, unit,
      row.sentence, in_code(spelled(row, OptionCaller::kCommandLine)), in_code(keyword_of(row)),
      member_name(row), row.stage, pipelines_of(row), row.affects_order ? "yes" : "");
}

std::string markdown() {
  std::string page(kPageBegin);
  const OptionRow* last = nullptr;
  for (const OptionRow& row : option_rows()) {
    if (last == nullptr || last->group != row.group) {
      page += fmt::format(
          "\n## {}\n\n| option | default | what it does | program | Python | C++ | stage | "
          "pipelines | order |\n|---|---|---|---|---|---|---|---|---|\n",
          heading(row.group));
    }
    page += markdown_row(row);
    last = &row;
  }
  return page;
}

// --- Text ---

std::string summary() {
  std::string text;
  const OptionRow* last = nullptr;
  for (const OptionRow& row : option_rows()) {
    if (last == nullptr || last->group != row.group) {
      text += fmt::format("{}{}\n", last == nullptr ? "" : "\n", heading(row.group));
    }
    text += fmt::format("  {:<26}{:<16}{}\n", row.name, row.standard, row.sentence);
    last = &row;
  }
  return text;
}

std::string explanation(const OptionRow& row) {
  const auto line = [](std::string_view label, const std::string& text) {
    return text.empty() ? "" : fmt::format("  {:<12}{}\n", label, text);
  };
  return fmt::format("{}: {}\n", row.name, row.sentence) + line("values", expected_value(row)) +
         line("default", std::string(row.standard)) + line("unit", std::string(row.unit)) +
         line("program", spelled(row, OptionCaller::kCommandLine)) +
         line("Python", spelled(row, OptionCaller::kPython)) +
         line("C++", fmt::format("{} {}", type_name(row), member_name(row))) +
         line("stage", std::string(row.stage)) + line("pipelines", pipelines_of(row)) +
         line("order", row.affects_order ? "a different value changes the order" : "not affected");
}

// Finds an option by its name, its flag without --, or its keyword.
const OptionRow& row_called(const std::string& name) {
  std::vector<std::string> names;
  for (const OptionRow& row : option_rows()) {
    const std::string flag = spelled(row, OptionCaller::kCommandLine);
    if (row.name == name || keyword_of(row) == name || (!flag.empty() && flag == "--" + name)) {
      return row;
    }
    names.emplace_back(row.name);
  }
  const auto nearest = nearest_name(name, names);
  throw UsageError{fmt::format(
      "unknown option '{}'{}", printable(name),
      nearest ? fmt::format("; did you mean '{}'?", *nearest) : "; `energon options` lists all")};
}

int run_options(const OptionsFlags& flags) {
  if (!flags.name.empty()) {
    const OptionRow& row = row_called(flags.name);
    output().write(flags.is_json ? indented_json(json_of(row)) + "\n" : explanation(row));
    return kExitOk;
  }
  if (flags.is_json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const OptionRow& row : option_rows()) {
      rows.push_back(json_of(row));
    }
    output().write(indented_json(rows) + "\n");
  } else {
    output().write(flags.is_markdown ? markdown() : summary());
  }
  return kExitOk;
}

}  // namespace

void add_options(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("options", "List the options of data, pipelines and loaders");
  const auto flags = std::make_shared<OptionsFlags>();
  command->add_option("NAME", flags->name, "Explain only this option, such as batch_size");
  CLI::Option* const json = command->add_flag("--json", flags->is_json, "Print the table as JSON");
  command->add_flag("--markdown", flags->is_markdown, "Print the page docs/reference/options.md")
      ->excludes(json);
  on_run(*command, flags, run, run_options);
}

}  // namespace energon::cli
