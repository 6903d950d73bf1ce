import stage
import torch

torch.set_num_threads(1)


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.LSTMCell(48, 48)
        self.head = torch.nn.Linear(48, 48)

    def forward(self, characters):
        hidden = torch.zeros(2, characters.shape[1], 48)
        state, outputs = (hidden[0], hidden[1]), []
        for character in characters:
            state = self.cell(character, state)
            outputs.append(self.head(state[0]))
            stage.kernel(0.35, sm=45)
        return torch.stack(outputs)


model = Decoder()
optimizer = torch.optim.Adam(model.parameters())
stage.kernel(0)  # importing torch is no launch
for step in stage.steps(5):
    characters = torch.rand(40, 8, 48)
    loss = torch.nn.functional.l1_loss(model(characters), characters)
    loss.backward()
    stage.kernel(0.35, sm=45)
    optimizer.step()
    stage.kernel(0.35, sm=45)
    optimizer.zero_grad()
