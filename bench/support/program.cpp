#include "bench/support/program.h"

#include <cstdio>
#include <exception>
#include <filesystem>

#include <fmt/format.h>

#include "bench/support/machine.h"

namespace energon::bench {

int run_program(int argc, char** argv, const std::string& name, const std::string& question,
                const std::function<void(CLI::App&)>& add_options,
                const std::function<void(const CommonOptions&, Report&)>& body) {
  CommonOptions options;
  options.data_folder = (std::filesystem::temp_directory_path() / "energon-bench").string();
  options.json_path = std::string(ENERGON_BENCH_RESULTS) + "/" + name + ".json";
  CLI::App app(question);
  app.add_option("--data", options.data_folder, "Folder of the datasets, created if missing")
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "Number of measured rounds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", options.json_path, "File for the report, or '' for none")
      ->capture_default_str();
  add_options(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::string warning = build_warning(); !warning.empty()) {
    fmt::print(stderr, "{}: {}\n", name, warning);
  }
  try {
    Report report(name, question);
    report.setting("repetitions", options.repetitions);
    body(options, report);
    fmt::print("{}", report.text());
    if (!options.json_path.empty()) {
      report.write_json(options.json_path);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
  return 0;
}

}  // namespace energon::bench
