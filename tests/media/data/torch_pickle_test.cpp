// Torch files with pickles that well-behaved programs do not write. The letters are opcodes:
// io/pickle.cpp.

#include <string>
#include <vector>

#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/zip_builder.h"

using energon::decode_torch_file;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::Mapping;
using energon::SharedBytes;
using energon::Value;
using energon::testing::exact_copy;
using energon::testing::is_same;
using energon::testing::outcome_of;
using energon::testing::refusal;
using energon::testing::ZipBuilder;
using std::string_literals::operator""s;

namespace {

std::string file_of(const std::string& pickle) {
  return ZipBuilder()
      .add("archive/data.pkl", pickle)
      .add("archive/data/0", std::string(24, '\x01'))
      .build();
}

// Protocol 2, `body`, STOP.
std::string program(const std::string& body) { return file_of("\x80\x02"s + body + "."); }

Value torch_file_of_pickle(std::string_view bytes) {
  HeapBufferPool memory;
  return decode_torch_file(exact_copy(bytes).view, DecodeLimits(), memory);
}

const auto kDecodeTorchPickle = [](const SharedBytes& bytes) {
  HeapBufferPool memory;
  decode_torch_file(bytes.view, DecodeLimits(), memory);
};

std::string outcome(const std::string& body) {
  return outcome_of(kDecodeTorchPickle, program(body));
}

std::string text(const std::string& content) {
  return "\x8c"s + static_cast<char>(content.size()) + content;
}

std::string integer(std::int64_t number) {
  std::string result = "\x8a\x08";
  for (int i = 0; i < 8; ++i) {
    result += static_cast<char>(number >> (8 * i) & 0xFF);
  }
  return result;
}

std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string result = "(";
  for (const std::int64_t number : numbers) {
    result += integer(number);
  }
  return result + "t";
}

// A persistent id of the 6 floats in data/0.
std::string storage(const std::string& type = "FloatStorage", const std::string& key = "0",
                    std::int64_t elements = 6) {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text(key) + text("cpu") +
         integer(elements) + "tQ";
}

std::string tensor(std::int64_t offset, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides,
                   const std::string& in_storage = storage()) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + in_storage + integer(offset) + tuple(shape) +
         tuple(strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

}  // namespace

TEST_CASE("a pickle that would run code is refused with module and name", "[media][data]") {
  const std::string arguments = text("true") + "\x85R";
  CHECK_THAT(
      refusal(kDecodeTorchPickle, program("cos\nsystem\n" + arguments), ErrorCode::kUnsupported),
      Catch::Contains("os.system") && Catch::Contains("byte 2 of data.pkl"));
  CHECK_THAT(refusal(kDecodeTorchPickle, program("c__builtin__\neval\n" + arguments),
                     ErrorCode::kUnsupported),
             Catch::Contains("__builtin__.eval"));
  CHECK_THAT(
      refusal(kDecodeTorchPickle, program(text("posix") + text("system") + "\x93" + arguments),
              ErrorCode::kUnsupported),
      Catch::Contains("posix.system"));
  for (const std::string module_and_name :
       {"torch\nload\n", "torch._utils\n_rebuild_qtensor\n", "collections\ndefaultdict\n",
        "torch.nn\nLinear\n", "\n\n", "torch\n_utils._rebuild_tensor_v2\n",
        "os\n_rebuild_tensor_v2\n", "os\n_rebuild_parameter\n", "os\nOrderedDict\n", "os\nSize\n",
        "os\nFloatStorage\n", "_codecs\nencode\n"}) {
    CAPTURE(module_and_name);
    CHECK_THAT(refusal(kDecodeTorchPickle, program("c" + module_and_name), ErrorCode::kUnsupported),
               Catch::Contains("which is not supported"));
  }
}

TEST_CASE("opcodes that torch.save does not write are refused", "[media][data]") {
  for (const int op : std::initializer_list<int>{
           '0', '1', '2', 'I', 'L',  'F',  'S',  'U',  'T',  'P',  'V',  'd',  'l',
           'g', 'i', 'o', 'p', 0x80, 0x82, 0x8F, 0x90, 0x91, 0x92, 0x97, 0x98, 0xFF}) {
    INFO(op);
    CHECK(outcome("]"s + static_cast<char>(op) + "12345678\n") == "unsupported");
  }
  CHECK_THAT(refusal(kDecodeTorchPickle, program("]I1\n"), ErrorCode::kUnsupported),
             Catch::Contains("byte 3 of data.pkl, opcode 'I'"));
  // A call without a function, and an object of something that is not a class.
  CHECK(outcome("]\x81") == "corrupt_data");
  CHECK(outcome("N)\x81") == "unsupported");
  CHECK(outcome("ctorch\nFloatStorage\n)\x81") == "unsupported");
  CHECK(outcome("\x8b\x09\x00\x00\x00"s + std::string(9, '\x55')) == "unsupported");
  CHECK(outcome_of(kDecodeTorchPickle, file_of("\x80\x06N.")) == "unsupported");
  CHECK(outcome_of(kDecodeTorchPickle, file_of("N.")) == "corrupt_data");
  CHECK(outcome_of(kDecodeTorchPickle, file_of("")) == "corrupt_data");
}

TEST_CASE("a tensor must be inside its storage", "[media][data]") {
  CHECK(outcome(tensor(0, {2, 3}, {3, 1})) == "value");
  CHECK(outcome(tensor(5, {1}, {1})) == "value");
  CHECK(outcome(tensor(5, {1, 1}, {INT64_MAX, 100})) == "value");
  CHECK(outcome(tensor(INT64_MAX, {0, 4}, {1, 1})) == "value");
  CHECK_THAT(
      refusal(kDecodeTorchPickle, program(tensor(1, {2, 3}, {3, 1})), ErrorCode::kCorruptData),
      Catch::Contains("shape (2, 3)") && Catch::Contains("6 elements"));
  for (const std::string& body :
       {tensor(6, {}, {}), tensor(6, {1}, {1}), tensor(-1, {1}, {1}), tensor(0, {-1}, {1}),
        tensor(5, {2}, {-1}), tensor(0, {2, 3}, {4, 1}), tensor(0, {3}, {INT64_MAX}),
        tensor(1, {2}, {INT64_MAX}), tensor(0, {INT64_MAX, 3}, {0, 0}), tensor(0, {2}, {1, 1}),
        tensor(INT64_MAX, {2}, {1})}) {
    CAPTURE(body);
    CHECK(outcome(body) == "corrupt_data");
  }
  // 2^60 elements of a storage of one.
  CHECK(outcome(tensor(0, {1LL << 60}, {0})) == "resource_exhausted");
}

TEST_CASE("a storage must be a member of its size", "[media][data]") {
  CHECK_THAT(refusal(kDecodeTorchPickle, program(tensor(0, {1}, {1}, storage("FloatStorage", "7"))),
                     ErrorCode::kCorruptData),
             Catch::Contains("data/7"));
  for (const std::int64_t elements : {5LL, 7LL, -1LL, INT64_MAX / 4 + 1LL}) {
    CAPTURE(elements);
    CHECK(outcome(tensor(0, {1}, {1}, storage("FloatStorage", "0", elements))) == "corrupt_data");
  }
  CHECK(outcome(tensor(0, {1}, {1}, storage("DoubleStorage", "0", 3))) == "value");
  CHECK(outcome(tensor(0, {1}, {1}, "N")) == "corrupt_data");
  CHECK(outcome("NQ") == "corrupt_data");
  CHECK(outcome(storage()) == "unsupported");
  CHECK(outcome("ctorch\nFloatStorage\n") == "unsupported");
}

TEST_CASE("functions are called only with their arguments", "[media][data]") {
  for (const std::string body :
       {"ctorch._utils\n_rebuild_tensor_v2\n)R", "ctorch._utils\n_rebuild_tensor_v2\nNR",
        "ctorch._utils\n_rebuild_parameter\n)R", "ctorch._utils\n_rebuild_parameter\nNNN\x87R",
        "ctorch\nSize\n)R", "ctorch\nSize\nN\x85R", "ccollections\nOrderedDict\nN\x85R"}) {
    INFO(body);
    CHECK(outcome(body) == "corrupt_data");
  }
  for (const std::string body : {"N)R", "])R", "ctorch\nFloatStorage\n)R"}) {
    CHECK(outcome(body) == "unsupported");
  }
}

TEST_CASE("a pickle takes only existing values from its stack", "[media][data]") {
  const std::vector<std::string> programs = {"",
                                             "\x85",
                                             "N\x86",
                                             "t",
                                             "a",
                                             "N(a",
                                             "]Na(",
                                             "(.",
                                             "}Ns",
                                             "}(Nu",
                                             "e",
                                             "u",
                                             "R",
                                             "b",
                                             "Q",
                                             "q\x00"s,
                                             "h\x00"s,
                                             "Nq\x01",
                                             "Nr\xff\xff\xff\xff",
                                             "j\xff\xff\xff\x7f",
                                             "\x93",
                                             "NN\x93",
                                             "X\xff\xff\xff\xff",
                                             "\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
                                             "\x8a\xff",
                                             "B\xff\xff\xff\xff",
                                             "\x8c\x01\xff",
                                             "cos\nsys",
                                             "\x95"};
  for (const std::string& body : programs) {
    INFO(body);
    CHECK(outcome(body) == "corrupt_data");
  }
  for (const std::string body : {"NNa", ")Na", "NNNs", "N(Ne", "]Nb", "}Nb", "NNb"}) {
    INFO(body);
    CHECK(outcome(body) == "unsupported");
  }
  CHECK(outcome("ccollections\nOrderedDict\n)R}b") == "value");
}

TEST_CASE("numbers outside of int64 are refused", "[media][data]") {
  CHECK(is_same(torch_file_of_pickle(program("\x8a\x00"s)), std::int64_t{0}));
  CHECK(is_same(torch_file_of_pickle(program("\x8a\x01\xff")), std::int64_t{-1}));
  CHECK(is_same(torch_file_of_pickle(program(integer(INT64_MIN))), INT64_MIN));
  CHECK(outcome("\x8a\x09"s + std::string(8, '\xff') + '\0') == "unsupported");
}

TEST_CASE("keys of dicts are strings or integers, and all different", "[media][data]") {
  CHECK(is_same(torch_file_of_pickle(program("}K\x07N\x73")), Mapping{{"7", energon::Null()}}));
  CHECK_THAT(
      refusal(kDecodeTorchPickle, program("}(K\x07N" + text("7") + "Nu"), ErrorCode::kUnsupported),
      Catch::Contains("'7'"));
  for (const std::string key : {"N", "\x88", ")", "G12345678"}) {
    CAPTURE(key);
    CHECK(outcome("}" + key + "Ns") == "unsupported");
  }
}

TEST_CASE("lists that contain themselves or multiply end in an Error", "[media][data]") {
  CHECK_THAT(
      refusal(kDecodeTorchPickle, program("]q\x00h\x00"s + "a"), ErrorCode::kResourceExhausted),
      Catch::Contains("contain themselves"));
  // Each list names the one before twice: 2^50 values.
  std::string body = "]q\x00"s;
  for (char i = 1; i < 50; ++i) {
    body += "](h"s + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  }
  CHECK_THAT(refusal(kDecodeTorchPickle, program(body), ErrorCode::kResourceExhausted),
             Catch::Contains("many times"));
  CHECK(outcome(std::string(1'000'000, ']') + std::string(999'999, 'a')) == "resource_exhausted");
}

TEST_CASE("zips that are not files of torch.save are refused", "[media][data]") {
  CHECK_THAT(
      refusal(kDecodeTorchPickle, ZipBuilder().add("a/b", "").build(), ErrorCode::kCorruptData),
      Catch::Contains("but no data.pkl"));
  CHECK(outcome_of(kDecodeTorchPickle, ZipBuilder().add("data.pkl", "\x80\x02N.").build()) ==
        "corrupt_data");
  CHECK(outcome_of(kDecodeTorchPickle, ZipBuilder().add("/data.pkl", "\x80\x02N.").build()) ==
        "value");
  CHECK(outcome_of(kDecodeTorchPickle, ZipBuilder().add("a/b/data.pkl", "\x80\x02N.").build()) ==
        "corrupt_data");
  CHECK(outcome_of(kDecodeTorchPickle, ZipBuilder().add("x", "").build()) == "corrupt_data");
  const auto with = [](const std::string& name, const std::string& content) {
    return ZipBuilder().add("a/data.pkl", "\x80\x02N.").add(name, content).build();
  };
  CHECK(outcome_of(kDecodeTorchPickle, with("a/byteorder", "little")) == "value");
  CHECK_THAT(refusal(kDecodeTorchPickle, with("a/byteorder", "big"), ErrorCode::kUnsupported),
             Catch::Contains("'big'"));
  CHECK_THAT(refusal(kDecodeTorchPickle, with("a/constants.pkl", ""), ErrorCode::kUnsupported),
             Catch::Contains("TorchScript"));
  CHECK(outcome_of(kDecodeTorchPickle, "GIF89a") == "corrupt_data");
}
