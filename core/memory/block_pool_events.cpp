// Notes uses of blocks by streams, records their events, and finds the blocks that are done.
#include "lathe/core/memory/block_pool_events.h"

namespace lathe {

void StreamUses::add(Block* block, StreamHandle stream) {
  const uint64_t capture = capture_of(stream);
  for (StreamUse* use = block->uses; use != nullptr; use = use->next_of_block) {
    if (use->stream != stream) continue;
    if (use->capture != capture) use->capture = 0;  // no longer part of one capture
    return;
  }
  StreamQueue& queue = queues_[stream];
  auto* use = new StreamUse{.stream = stream, .block = block, .queue = &queue, .capture = capture};
  use->next_of_block = block->uses;
  block->uses = use;
  ++queue.uses;
}

uint64_t StreamUses::capture_of(StreamHandle stream) const noexcept {
  // The default stream is never captured.
  return stream != nullptr ? memory_.capture_id(stream) : 0;
}

void StreamUses::wait(Block* block) noexcept {
  block->previous_waiting = newest_;
  block->next_waiting = nullptr;
  (newest_ != nullptr ? newest_->next_waiting : oldest_) = block;
  newest_ = block;
  block->open_uses = 0;
  for (const StreamUse* use = block->uses; use != nullptr; use = use->next_of_block)
    ++block->open_uses;
  if (!block->parked) record_events(block);
}

void StreamUses::park(Block* block) noexcept {
  block->parked = true;
  ++parked_;
  for (StreamUse* use = block->uses; use != nullptr; use = use->next_of_block) {
    const bool captured = use->capture != 0 && use->capture == capture_of(use->stream);
    use->mark = captured ? memory_.capture_mark(use->stream) : 0;
  }
  wait(block);
}

void StreamUses::unpark() noexcept {
  for (Block* block = oldest_; block != nullptr && parked_ > 0; block = block->next_waiting) {
    if (!block->parked || is_captured(block)) continue;
    block->parked = false;
    --parked_;
    record_events(block);
  }
}

bool StreamUses::is_captured(const Block* block) const noexcept {
  for (const StreamUse* use = block->uses; use != nullptr; use = use->next_of_block) {
    if (capture_of(use->stream) != 0) return true;
  }
  return false;
}

void StreamUses::record_events(Block* block) noexcept {
  for (StreamUse* use = block->uses; use != nullptr; use = use->next_of_block) {
    use->event = memory_.record(use->stream);
    if (use->event == nullptr) continue;
    StreamQueue& queue = *use->queue;
    (queue.newest != nullptr ? queue.newest->next_in_queue : queue.oldest) = use;
    queue.newest = use;
  }
}

Block* StreamUses::collect_done() noexcept {
  Block* done = nullptr;
  for (auto& [stream, queue] : queues_) {
    while (queue.oldest != nullptr && memory_.query(queue.oldest->event)) {
      StreamUse* use = queue.oldest;
      queue.oldest = use->next_in_queue;
      if (queue.oldest == nullptr) queue.newest = nullptr;
      finish(use, done);
    }
  }
  if (done != nullptr) drop_idle_queues();
  return done;
}

Block* StreamUses::collect_all() noexcept {
  for (auto& [stream, queue] : queues_) queue.oldest = queue.newest = nullptr;
  Block* done = nullptr;
  while (oldest_ != nullptr) {
    for (StreamUse* use = oldest_->uses; use != nullptr; use = use->next_of_block) {
      if (use->event != nullptr) memory_.release(use->event);
    }
    leave(oldest_, done);
  }
  drop_idle_queues();
  return done;
}

Block* StreamUses::collect_joined(const Arena* arena, StreamHandle stream) noexcept {
  Block* done = nullptr;
  for (Block *block = oldest_, *next = nullptr; block != nullptr; block = next) {
    next = block->next_waiting;
    if (!block->parked || block->segment->arena != arena || block->segment->stream != stream)
      continue;
    bool joined = true;
    for (StreamUse* use = block->uses; use != nullptr && joined; use = use->next_of_block)
      joined = use->mark != 0 && memory_.is_behind(stream, use->mark);
    if (joined) leave(block, done);
  }
  if (done != nullptr) drop_idle_queues();
  return done;
}

void StreamUses::finish(StreamUse* use, Block*& done) noexcept {
  memory_.release(use->event);
  use->event = nullptr;
  if (--use->block->open_uses == 0) leave(use->block, done);
}

// Takes a block off the list of waiting blocks, and adds it to `done`.
void StreamUses::leave(Block* block, Block*& done) noexcept {
  Block *before = block->previous_waiting, *after = block->next_waiting;
  (before != nullptr ? before->next_waiting : oldest_) = after;
  (after != nullptr ? after->previous_waiting : newest_) = before;
  if (block->parked) --parked_;
  block->parked = false;
  block->open_uses = 0;
  block->previous_waiting = nullptr;
  forget(block);
  block->next_waiting = done;
  done = block;
}

void StreamUses::forget(Block* block) noexcept {
  while (StreamUse* use = block->uses) {
    block->uses = use->next_of_block;
    --use->queue->uses;
    delete use;
  }
}

void StreamUses::drop_idle_queues() noexcept {
  std::erase_if(queues_, [](const auto& entry) { return entry.second.uses == 0; });
}

}  // namespace lathe
