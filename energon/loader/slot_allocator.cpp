#include "energon/loader/slot_allocator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "energon/loader/transport.h"

namespace energon {
namespace {

// Copied payloads begin on this boundary, so that tensors over them are aligned.
constexpr std::size_t kPayloadAlignment = 64;

std::size_t aligned(std::size_t size) {
  return (size + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

// Calls `visit` for every payload of a value.
template <class Visitor>
void for_each_payload(const Value& value, const Visitor& visit) {
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    visit(*bytes);
  } else if (const auto* tensor = std::get_if<Tensor>(&value.base())) {
    visit(tensor->data);
  } else if (const auto* list = std::get_if<List>(&value.base())) {
    for (const Value& element : *list) {
      for_each_payload(element, visit);
    }
  } else if (const auto* mapping = std::get_if<Mapping>(&value.base())) {
    for (const auto& [name, element] : *mapping) {
      for_each_payload(element, visit);
    }
  }
}

}  // namespace

Buffer SlotAllocator::allocate(std::size_t size) {
  auto* slot = new ArenaSlot(arena_.acquire(std::max<std::size_t>(size, 1), wait_));
  std::shared_ptr<const void> owner(slot, [this](ArenaSlot* released) {
    live_.erase(released);
    delete released;
  });
  live_.emplace(slot, slot);
  return {slot->bytes().first(size), std::move(owner)};
}

/// Decides for each payload: in the slot it lies in, or copied into slot 0.
class SlotAllocator::Placer final : public PayloadPlacer {
 public:
  Placer(const LiveSlots& live, const Sample& sample) {
    // A slot may be published if its only holders are payloads of this sample.
    std::unordered_map<const void*, std::pair<ArenaSlot*, long>> holders;
    for (const auto& [name, value] : sample.fields) {
      for_each_payload(value, [&](const SharedBytes& payload) {
        if (const auto found = live.find(payload.owner.get()); found != live.end()) {
          auto& [slot, count] = holders[payload.owner.get()];
          slot = found->second;
          if (++count == payload.owner.use_count()) {
            slots_.push_back(slot);
            number_of_[payload.owner.get()] = static_cast<std::uint32_t>(slots_.size());
          }
        }
      });
    }
  }

  PayloadPlace place(const SharedBytes& payload) override {
    if (const auto found = number_of_.find(payload.owner.get()); found != number_of_.end()) {
      const std::byte* begin = slots_[found->second - 1]->bytes().data();
      return {found->second, static_cast<std::uint64_t>(payload.view.data() - begin)};
    }
    const std::size_t offset = aligned(copied_bytes_);
    copied_bytes_ = offset + payload.size();
    copies_.push_back(payload.view);
    return {0, offset};
  }

  // The slots that places name, from number 1 on.
  const std::vector<ArenaSlot*>& slots() const { return slots_; }
  std::size_t copied_bytes() const { return copied_bytes_; }
  void copy_into(std::span<std::byte> slot) const {
    std::size_t offset = 0;
    for (const ByteView copy : copies_) {
      offset = aligned(offset);
      if (!copy.empty()) {
        std::memcpy(slot.data() + offset, copy.data(), copy.size());
      }
      offset += copy.size();
    }
  }

 private:
  std::vector<ArenaSlot*> slots_;
  std::unordered_map<const void*, std::uint32_t> number_of_;
  std::vector<ByteView> copies_;
  std::size_t copied_bytes_ = 0;
};

PackedSample SlotAllocator::pack(Sample sample) {
  Placer placer(live_, sample);
  encoded_.clear();
  encode_sample(sample, placer, encoded_);
  PackedSample packed;
  packed.encoded_offset = aligned(placer.copied_bytes());
  packed.encoded_bytes = encoded_.bytes().size();
  packed.slots.push_back(arena_.acquire(packed.encoded_offset + packed.encoded_bytes, wait_));
  const std::span<std::byte> first = packed.slots.front().bytes();
  placer.copy_into(first);
  std::memcpy(first.data() + packed.encoded_offset, encoded_.bytes().data(), packed.encoded_bytes);
  for (ArenaSlot* slot : placer.slots()) {
    packed.slots.push_back(std::move(*slot));
  }
  return packed;
}

}  // namespace energon
