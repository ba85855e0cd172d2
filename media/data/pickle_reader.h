// Interprets the opcodes of Python's pickle that torch.save writes (pickletools describes them),
// without running code. Internal to media/data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "energon/sample/sample.h"
#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// Position of an object in PickleGraph::nodes.
using PickleId = std::size_t;

struct PickleSequence {
  std::vector<PickleId> items = {};
  bool is_list = false;  ///< otherwise a tuple, which nothing is appended to
};

struct PickleDict {
  std::vector<std::pair<PickleId, PickleId>> entries = {};
  bool is_ordered_dict = false;  ///< which may have attributes; they are left out
};

/// The functions that a pickle may call. All of them are written here: no code of the file runs.
enum class PickleFunction : std::uint8_t {
  kRebuildTensor,     ///< torch._utils._rebuild_tensor_v2
  kRebuildParameter,  ///< torch._utils._rebuild_parameter
  kOrderedDict,       ///< collections.OrderedDict
  kSize,              ///< torch.Size
};

/// A class such as torch.FloatStorage.
struct PickleStorageType {
  DType dtype = DType::kUInt8;
};

/// The elements of one or several tensors: a member of the zip.
struct PickleStorage {
  DType dtype = DType::kUInt8;
  std::string key = {};  ///< the name of the member
  std::int64_t elements = 0;
};

/// A view of a storage. All numbers count elements and are as in the file, unchecked.
struct PickleTensor {
  PickleId storage = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> strides = {};
};

using PickleNode =
    std::variant<Null, bool, std::int64_t, double, std::string, SharedBytes, PickleSequence,
                 PickleDict, PickleFunction, PickleStorageType, PickleStorage, PickleTensor>;

/// What a pickle of torch.save describes, before it becomes a Value: objects that refer to one
/// another by number. Lists and dicts may contain themselves.
struct PickleGraph {
  std::vector<PickleNode> nodes = {};
  PickleId root = 0;

  /// The object as a `Type`; null if it is another.
  template <class Type>
  const Type* get(PickleId id) const {
    return std::get_if<Type>(&nodes[id]);
  }
};

/// Thread-safe. Throws Error with the byte offset: kCorruptData for a damaged pickle, kUnsupported
/// for opcodes, functions and classes other than those of torch.save, with module and name;
/// kResourceExhausted if the objects take more than limits.max_bytes.
PickleGraph read_pickle(ByteView encoded, const DecodeLimits& limits);

}  // namespace energon
