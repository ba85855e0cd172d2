// Typed samples on the command line: prepare writes the type, run and get make the samples.

#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/tar_builder.h"

using energon::testing::json_lines;
using energon::testing::run_lines;
using energon::testing::operator+;
using energon::testing::run_energon;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

void write_typed_shards(const TempDir& folder) {
  TarBuilder tar;
  for (int i = 0; i < 4; ++i) {
    const std::string key = fmt::format("{}", i);
    tar.file(key + ".json", fmt::format(R"({{"q": "why {}?", "a": ["so"]}})", i))
        .file(key + ".txt", fmt::format("text {}", i))
        .file(key + ".bin", "never read");
  }
  folder.write("a.tar", tar.end().text());
}

std::string yaml_in(const TempDir& folder) {
  return energon::read_file(folder.file(".nv-meta/dataset.yaml"));
}

const Words kQuiet = {"--no-progress", "--split-ratio", "1,0,0"};

struct Answered {
  int exit_code;
  std::string out;
  std::string err;
};

// prepare --interactive of `folder`, with these answers in a pipe.
Answered prepare_asking(const TempDir& folder, const std::string& arguments,
                        const std::string& answers) {
  const TempDir files;
  files.write("answers", answers);
  const std::string command = fmt::format(
      "'{}' prepare '{}' --interactive --no-progress {} <'{}' >'{}' 2>'{}'", ENERGON_PROGRAM,
      folder.path(), arguments, files.file("answers"), files.file("out"), files.file("err"));
  const int status = std::system(command.c_str());  // NOLINT: a shell for its redirections
  return {.exit_code = WEXITSTATUS(status),
          .out = energon::read_file(files.file("out")),
          .err = energon::read_file(files.file("err"))};
}

}  // namespace

TEST_CASE("prepare writes the sample type, run and get make the samples", "[cli][typed]") {
  const TempDir folder;
  write_typed_shards(folder);
  const auto prepared = run_energon(Words{"prepare", folder.path(), "--sample-type", "TextSample",
                                          "--field-map", "text=json[title],json[q]"} +
                                    kQuiet);
  INFO(prepared.err);
  CHECK(prepared.exit_code == 0);
  CHECK(yaml_in(folder) ==
        "sample_type:\n  __module__: megatron.energon\n  __class__: TextSample\n"
        "field_map:\n  text: json[title],json[q]\n");

  const Words val = {"--mode", "val"};
  const auto lines = run_lines(folder.path(), val + Words{"--typed"});
  CHECK(lines.size() == 4);
  CHECK(lines != run_lines(folder.path(), val));
  CHECK(lines == run_lines(folder.path(), val + Words{"--typed"}));

  const std::string key = json_lines(lines.at(1)).at(0).at("restore_key");
  const auto batch =
      run_energon(Words{"get", folder.path(), "--restore-key", key, "--typed", "--json"} + val);
  INFO(batch.err);
  REQUIRE(batch.exit_code == 0);
  const auto json = nlohmann::json::parse(batch.out);
  CHECK(json.at("as_read") == false);
  CHECK(json.at("samples")[0].at("parts") ==
        nlohmann::json::array({{{"name", "text"}, {"value", "a string of 6 bytes"}}}));

  const auto sample = run_energon({"get", folder.path(), "2", "--typed"});
  INFO(sample.err);
  CHECK(sample.exit_code == 0);
  CHECK_THAT(sample.out, Catch::Contains("why 2?"));
  CHECK(run_energon({"get", folder.path(), "2.txt", "--typed"}).exit_code == 2);
}

TEST_CASE("prepare refuses wrong types and fields", "[cli][typed]") {
  const TempDir folder;
  write_typed_shards(folder);
  const auto refused = [&](const Words& words, int exit_code) {
    const auto result = run_energon(Words{"prepare", folder.path()} + kQuiet + words);
    CHECK(result.exit_code == exit_code);
    CHECK_THROWS(yaml_in(folder));
    return result.err;
  };
  const Words text = {"--sample-type", "TextSample"};
  CHECK_THAT(refused({"--sample-type", "Text"}, 2), Catch::Contains("CaptioningSample, "));
  CHECK_THAT(refused({"--field-map", "text=txt"}, 2), Catch::Contains("--sample-type"));
  CHECK_THAT(refused(text, 2), Catch::Contains("lacks 'text'"));
  CHECK_THAT(refused(text + Words{"--field-map", "text"}, 2), Catch::Contains("FIELD=EXPRESSION"));
  CHECK_THAT(refused(text + Words{"--field-map", "text=json["}, 2), Catch::Contains("character 6"));
  CHECK_THAT(refused(text + Words{"--field-map", "text=txt", "--field-map", "label=cls"}, 2),
             Catch::Contains("has 'label'"));
  CHECK_THAT(refused(text + Words{"--field-map", "{\"text\": 1}"}, 2),
             Catch::Contains("must be a string"));
  CHECK_THAT(refused(text + Words{"--field-map", "{"}, 2),
             Catch::Contains("expected a JSON object"));
  CHECK_THAT(refused(text + Words{"--field-map", "text=jpg"}, 1),
             Catch::Contains("their parts are: json, txt, bin"));
  CHECK(refused({"--interactive", "--non-interactive"}, 2).size() > 0);
  // The field map in Energon's form.
  const auto result = run_energon(
      Words{"prepare", folder.path(), "--field-map", R"({"text": "txt,html"})"} + text + kQuiet);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, Catch::Contains("warning") && Catch::Contains("'text': html"));
  CHECK_THAT(yaml_in(folder), Catch::Contains("text: txt,html\n"));
}

TEST_CASE("the wizard asks for split, type and fields, again after a wrong answer",
          "[cli][typed]") {
  const TempDir folder;
  write_typed_shards(folder);
  const auto result = prepare_asking(folder, "",
                                     "1,0,0\nNoSample\n0\nVQASample\njpg\n\njson[\njson[q]\n"
                                     "json[q]\njson[a]\n\n");
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out,
             Catch::Contains("The first sample, '0' in a.tar, has these parts:\n  json (28 bytes)\n"
                             "  txt (6 bytes)\n") &&
                 Catch::Contains("1. CaptioningSample: image, caption\n") &&
                 Catch::Contains("10. VQASample: image, context, [answers]") &&
                 Catch::Contains("12. CrudeSample: the parts as they are") &&
                 Catch::Contains("'NoSample' is not one of them") &&
                 Catch::Contains("'image' is required") &&
                 Catch::Contains("their parts are: json, txt, bin"));
  CHECK_THAT(result.err, Catch::Contains("image (an image): ") &&
                             Catch::Contains("answers (a list of strings; optional"));
  CHECK_THAT(yaml_in(folder), Catch::Contains("__class__: VQASample\nfield_map:\n"
                                              "  image: json[q]\n  context: json[q]\n"
                                              "  answers: json[a]\n") &&
                                  !Catch::Contains("answer_weights"));
}

TEST_CASE("the wizard asks only for what the options leave open", "[cli][typed]") {
  const TempDir folder;
  write_typed_shards(folder);
  const auto result = prepare_asking(
      folder, "--split-ratio 1,0,0 --sample-type VQASample --field-map image=txt", "txt\n\n\n");
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(yaml_in(folder), Catch::Contains("  image: txt\n  context: txt\n"));
  // The end of the input is not an answer.
  const TempDir other;
  write_typed_shards(other);
  const auto ended = prepare_asking(other, "--split-ratio 1,0,0", "VQASample\ntxt\n");
  CHECK(ended.exit_code == 1);
  CHECK_THAT(ended.err, Catch::Contains("no answer; nothing was prepared"));
  CHECK_THROWS(yaml_in(other));
  CHECK(prepare_asking(other, "--split-ratio 1,0,0", "12\n").exit_code == 0);
  CHECK_THAT(yaml_in(other), Catch::Contains("CrudeWebdataset"));
}

TEST_CASE("sample types are for folders of shards", "[cli][typed]") {
  const TempDir folder;
  const std::string path = folder.write("a.jsonl", "{\"a\": 1}\n");
  const auto result = run_energon({"prepare", path, "--sample-type", "TextSample"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Catch::Contains("--sample-type is for folders of shards"));
  CHECK(run_energon({"run", path, "--mode", "val", "--typed"}).exit_code == 0);
}
