-- Append events, all or none; return their offsets.
-- args: events:3
-- needs: arguments publish conclude_if_room
for i = 1, events.count do publish(cell(events, i, 1), cell(events, i, 2), cell(events, i, 3)) end
conclude_if_room()
return offsets
