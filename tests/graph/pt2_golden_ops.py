"""Models of make_pt2_golden.py that call one operator after another by its name in PyTorch, for operators that the other models do not need."""
import torch
from torch import nn
from torch.nn import functional as F

aten = torch.ops.aten


def numbered(results):
    return {str(i): y for i, y in enumerate(results)}


class Elements(nn.Module):
    """Operators of single elements. What is defined in a part of the numbers only gets numbers of that part."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))
        self.slope = nn.Parameter(torch.rand(6))

    def forward(self, x):
        y = x * self.w
        high, small = y.abs() + 1.25, torch.tanh(y) * 0.9
        whole = (y * 3).round()
        out = [aten.frac(y), aten.floor(y), aten.ceil(y), aten.round(y), aten.trunc(y), aten.fix(y), aten.sign(y), aten.square(y), aten.absolute(y), aten.negative(y)]
        out += [aten.exp2(small), aten.expm1(small), aten.log(high), aten.log1p(high), aten.log2(high), aten.log10(high), aten.sqrt(high), aten.reciprocal(high)]
        out += [aten.tan(small), aten.asin(small), aten.acos(small), aten.atan(y), aten.sinh(small), aten.cosh(small), aten.asinh(y), aten.acosh(high), aten.atanh(small)]
        out += [aten.erf(y), aten.log_sigmoid(y), aten.selu(y), aten.celu(y, 0.7), aten.celu(y * 4, 0.1), aten.arcsinh(y), aten.special_expit(y), aten.arctan2(y, x), aten.clip(y, max=0.2), aten.hardshrink(y, 0.3), aten.softshrink(y, 0.3), aten.threshold(y, 0.2, -1.0)]
        out += [aten.prelu(y, self.slope), aten.glu(y, 1), aten.rsub.Scalar(y, 2, 0.5), aten.rsub.Tensor(y, x), aten.multiply(y, x), aten.subtract(y, x, alpha=2), aten.true_divide(y, high)]
        out += [aten.floor_divide(y.detach(), 0.3), aten.floor_divide(y.detach(), x.abs() + 1), aten.floor_divide.Scalar(y.detach(), 0.3), aten.remainder.Scalar(y, 0.7), aten.remainder.Tensor(y, high), aten.fmod.Scalar(y, 0.7), aten.fmod.Tensor(y, high)]
        out += [aten.div.Scalar(y, 3), aten.div.Scalar_mode(y, 0.3, rounding_mode="trunc"), aten.mul.Scalar(y, 3), aten.add.Scalar(y, 3, 2), aten.sub.Scalar(y, 3, 2)]
        out += [aten.pow.Tensor_Tensor(high, small), aten.minimum(x, y), aten.max.other(x, y), aten.min.other(x, y), aten.atan2(y, x), aten.hypot(y, x), aten.logaddexp(y, x)]
        out += [aten.addcdiv(y, x, high, value=0.5), aten.lerp.Scalar(y, x, 0.3), aten.lerp.Tensor(y, x, torch.sigmoid(y)), aten.clamp_max(y, 0.1), aten.clip(y, -0.2, 0.4)]
        out += [aten.clamp.Tensor(y, -high, x), aten.clamp_min.Tensor(y, x), aten.clamp_max.Tensor(y, x), aten.nan_to_num(torch.log(whole), nan=2.0, posinf=3.0, neginf=-3.0)]
        out += [aten.isnan(torch.log(whole)), aten.isinf(torch.log(whole)), aten.isfinite(torch.log(whole)), aten.logical_not(whole), aten.logical_and(whole, x), aten.logical_or(whole, x), aten.logical_xor(whole, x)]
        a, b = y > 0, x > 0
        out += [aten.__or__.Tensor(a, b), aten.__xor__.Tensor(a, b), aten.bitwise_and(a, b), aten.bitwise_or(a, b), aten.bitwise_xor(a, b)]
        i, by = (y * 9).to(torch.int32), (x * 9).to(torch.int32) & 3
        out += [f(i, by) for f in (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor, aten.bitwise_left_shift.Tensor, aten.bitwise_right_shift.Tensor, aten.__lshift__.Tensor, aten.__rshift__.Tensor)]
        out += [f(i, 2) for f in (aten.bitwise_and.Scalar, aten.bitwise_or.Scalar, aten.bitwise_xor.Scalar, aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_right_shift.Tensor_Scalar)]
        out += [f(i, 2) for f in (aten.__and__.Scalar, aten.__or__.Scalar, aten.__xor__.Scalar, aten.__lshift__.Scalar, aten.__rshift__.Scalar)] + [aten.bitwise_not(i)]
        out += [f(3, by) for f in (aten.bitwise_and.Scalar_Tensor, aten.bitwise_or.Scalar_Tensor, aten.bitwise_xor.Scalar_Tensor, aten.bitwise_left_shift.Scalar_Tensor, aten.bitwise_right_shift.Scalar_Tensor)]
        out += [aten.ge.Tensor(x, y), aten.gt.Tensor(x, y), aten.lt.Tensor(x, y), aten.le.Scalar(x, 0), aten.lt.Scalar(x, 0), aten.ne.Tensor(whole, x), aten.greater(x, y), aten.less_equal(x, y)]
        out += [aten.where.ScalarSelf(a, 0.5, y), aten.where.ScalarOther(a, y, 0.5), aten.masked_fill.Tensor(y, a, torch.tensor(0.5))]
        return numbered(out)


class Written(nn.Module):
    """The in-place forms."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        out = []
        for write in (aten.exp_, aten.gelu_, aten.hardsigmoid_, aten.relu6_, aten.selu_, aten.celu_, aten.abs_, aten.square_, aten.sin_, aten.erf_, aten.neg_, aten.tanh_,
                      lambda t: aten.add_.Scalar(t, 2), lambda t: aten.sub_.Tensor(t, x), lambda t: aten.mul_.Scalar(t, 3), lambda t: aten.div_.Scalar(t, 3), lambda t: aten.pow_.Scalar(t, 2), lambda t: aten.pow_.Tensor(t.abs_().add_(0.5), x), lambda t: aten.cumsum_(t, 1), lambda t: aten.cumprod_(t, 1), lambda t: aten.addmm_(t, x, x.t() @ x),
                      lambda t: aten.masked_fill_.Scalar(t, x > 0, 2), lambda t: aten.masked_fill_.Tensor(t, x > 0, torch.tensor(2.0)), lambda t: aten.fill_.Tensor(t, torch.tensor(2.0)),
                      lambda t: aten.clamp_min_(t, 0.1), lambda t: aten.lerp_.Scalar(t, x, 0.3), lambda t: aten.addcmul_(t, x, x), lambda t: aten.tril_(t), lambda t: aten.multiply_.Tensor(t, x),
                      lambda t: aten.index_add_(t, 0, torch.tensor([0, 2]), x[:2]), lambda t: aten.scatter_.value(t, 1, torch.tensor([[0], [1], [2], [3]]), 0.5),
                      lambda t: aten.index_put_(t, [torch.tensor([0, 1])], x[2:]), lambda t: aten.sqrt_(t.square_().add_(1.0)), lambda t: aten.le_.Scalar(t, 0.0)):
            y = x * self.w
            seen = y[1]  # another view of the memory that is written
            write(y)
            out.append(y * 2 + seen)
            z = x * self.w
            out.append(write(z) + 1)
        z = x * 1
        aten.floor_divide_.Tensor(z, x.abs() + 1)
        return numbered([*out, z])


class Dimensions(nn.Module):
    """Sums, extremes, norms, order along dimensions."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, x):
        y = x * self.w
        up = y.abs() + 0.5
        out = [aten.mean(y), aten.sum(y), aten.amin(y, [1]), aten.logsumexp(y, [0, 2], True), aten.max(y), aten.min(y), aten.max.dim(y, 1), aten.min.dim(y, -1, True)]
        out += [aten.argmax(y), aten.argmin(y, 1, True), aten.argmax(y, 0), aten.any(y > 1), aten.all(y > -9), aten.any.dim(y > 1, 1), aten.all.dim(y > 0, -1, True)]
        out += [aten.var.correction(y, [1], correction=0), aten.std.correction(y, [1, 2], correction=1), aten.var(y), aten.std(y, False), aten.var.dim(y, [1], True), aten.std.dim(y, [1], False)]
        out += [aten.var_mean.correction(y, [1], correction=1, keepdim=True), aten.std_mean.correction(y, [2], correction=0)]
        out += [aten.norm.Scalar(y, 3), aten.norm.ScalarOpt_dim(y, 2, [1], True), aten.prod(up), aten.prod.dim_int(up, 1, True), aten.count_nonzero(y > 0), aten.count_nonzero.dim_IntList(y > 0, [1])]
        out += [aten.cumprod(up, 1), aten.sort(y, 1, True), aten.sort.stable(y, stable=True, dim=2), aten.argsort(y, 1), aten.topk(y, 2, 1, False), aten.kthvalue(y, 2, 1, True), aten.median(y), aten.median.dim(y, 1)]
        out += [aten.median.dim(torch.where(y > 1, torch.nan, y.detach()), 1)[1], aten.cummax(y, 1), aten.cummin(y, 2), aten.quantile.scalar(y, 0.3, 1), aten.quantile(y, torch.tensor([0.25, 0.5], dtype=y.dtype), interpolation="nearest")]
        out += [aten.std.correction(y, [1], correction=2.0)]
        flat = []
        for result in out:
            flat += result if isinstance(result, (tuple, list)) else [result]
        return numbered(flat)


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 5))
        self.v = nn.Parameter(torch.randn(5))
        self.both = nn.Parameter(torch.randn(3, 4, 5))
        self.g = nn.Parameter(torch.rand(4, 1) + 0.5)

    def forward(self, x, z):  # [4,5], [5,4]
        three = x.unsqueeze(0).expand(2, -1, -1)
        out = [aten.mm(self.a, z), aten.bmm(three, (self.a.t() * 1).unsqueeze(0).expand(2, -1, -1)), aten.mv(self.a, self.v), aten.dot(self.v, x[0]), aten.vdot(self.v, x[1])]
        out += [aten.outer(self.v, x[0]), aten.ger(self.v, x[1]), aten.kron(x[:2, :2], self.a[:2, :2]), aten.baddbmm(three[:, :, :4], three, z.unsqueeze(0).expand(2, -1, -1), beta=0.5, alpha=2)]
        out += [aten.addmv(x[:, 0], self.a, self.v, beta=0.5), aten.bilinear(x[:, :4], self.a, self.both, x[0, :3]), aten.bilinear(x[:, :4], self.a, self.both)]
        out += [aten._weight_norm(self.a, self.g, 0), aten.norm_except_dim(self.a, 2, 1), aten._weight_norm(self.both, self.g[None, :, :1], -2), aten.tensordot(self.both, x, [1, 2], [0, 1]), aten.cdist(x, self.a, 2.0, None), aten.pairwise_distance(x, self.a), aten.cosine_similarity(x, self.a)]
        out += [aten.mT(self.a) * 1, aten.mH(self.a) * 1, aten.adjoint(self.a) * 1, aten.matrix_H(self.a) * 1]
        return numbered(out)


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("classes", torch.tensor([1, 0, -100, 5]), persistent=False)
        self.register_buffer("weights", torch.rand(6) + 0.5, persistent=False)

    def forward(self, x, z):
        y = x * self.w
        p, side = torch.sigmoid(y), torch.sign(z[:, 0])
        out = [F.mse_loss(y, z), F.mse_loss(y, z, reduction="none"), F.l1_loss(y, z, reduction="sum"), F.smooth_l1_loss(y, z, beta=0.5), F.huber_loss(y, z, delta=0.5)]
        out += [F.binary_cross_entropy(p, torch.sigmoid(z)), F.binary_cross_entropy_with_logits(y, torch.sigmoid(z), pos_weight=self.weights)]
        out += [F.kl_div(F.log_softmax(y, 1), torch.softmax(z, 1), reduction="sum"), aten.kl_div(F.log_softmax(y, 1), F.log_softmax(z, 1), log_target=True), F.poisson_nll_loss(y, z.abs(), full=True)]
        out += [F.cross_entropy(y, self.classes, self.weights, label_smoothing=0.1), F.cross_entropy(y, torch.softmax(z, 1)), F.nll_loss(F.log_softmax(y, 1), self.classes)]
        out += [aten.nll_loss(F.log_softmax(y, 1), self.classes), aten.nll_loss2d(F.log_softmax(y.reshape(2, 2, 3, 2), 1), self.classes.clamp(0, 1).repeat(3).reshape(2, 3, 2))]
        out += [F.cosine_embedding_loss(y, z, side), F.hinge_embedding_loss(y, torch.sign(z)), F.margin_ranking_loss(y[:, 0], z[:, 0], side, margin=0.1), F.triplet_margin_loss(y, z, x, swap=True)]
        out += [F.soft_margin_loss(y, torch.sign(z)), F.multilabel_margin_loss(y, torch.tensor([1, 0, -1, -1, -1, -1]).repeat(4, 1))]
        return numbered(out)


class Rearranged(nn.Module):
    """Views, chosen and written elements, new tensors."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("at", torch.tensor([[0, 2, 1], [1, 0, 3]]), persistent=False)

    def forward(self, x):
        y = x * self.w
        n = y.shape[0]
        out = [aten._unsafe_view(y, [n * 6]), aten.view_as(y, x), aten.squeeze(y[:, None]), aten.squeeze.dims(y[:, None, :, None], [1, 3]), aten.swapdims(y, 0, 1) * 1, aten.numpy_T(y) * 1]
        out += [aten.movedim.int(y, 0, 1) * 1, aten.movedim.intlist(y[None], [0, 2], [2, 0]) * 1, aten.narrow(y, 1, 2, 3), *aten.split.sizes(y, [2, 4], 1), aten.detach(y), aten._to_copy(y, dtype=torch.float64).to(x.dtype)]
        out += [aten.to.other(torch.arange(6), y), aten.flip(y, [0, 1]), aten.triu(y, 1), aten.pixel_shuffle(y.reshape(1, 4, 2, 3), 2), aten.pixel_unshuffle(y.reshape(1, 1, 4, 6), 2), aten.constant_pad_nd(y, [1, 2], 0.5)]
        out += [aten.repeat_interleave.self_int(y, 2), aten.repeat_interleave.self_int(y, 2, 1), *aten.meshgrid.indexing([y[0], y[1, :2]], indexing="xy"), *aten.meshgrid([y[0], y[1, :2]])]
        out += [*aten.broadcast_tensors([y[:1], y[:, :1]]), aten.broadcast_to(y[:1], [3, 6]) * 1, aten.ravel(y), aten.diagonal(y, 1) * 1, aten.diag_embed(y, 1), aten.unfold(y, 1, 3, 2) * 1, aten.tile(y, [2, 1, 2])]
        out += [aten.index_put(y, [self.at[0]], y[:3] * 2), aten.index_put(y, [self.at[0], self.at[1]], y[0, :3], True), aten.scatter.src(y, 1, self.at, (y * 2)[:2, :3]), aten.scatter.value(y, 1, self.at, 0.5)]
        out += [*(aten.scatter_reduce.two(y, 1, self.at, (y * 2)[:2, :3], how) for how in ("sum", "prod", "mean", "amax")), aten.scatter_reduce.two(y, 1, self.at, (y * 2)[:2, :3], "amin", include_self=False)]
        out += [aten.scatter_add(y, 1, self.at, (y * 2)[:2, :3]), aten.index_add(y, 0, self.at[0], y[:3], alpha=2), aten.take_along_dim(y, self.at.repeat(1, 2), 0), aten.one_hot(self.at, 4)]
        out += [aten.im2col(y.reshape(1, 2, 3, 4), [2, 2], [1, 1], [1, 0], [1, 2]), aten.im2col(y.reshape(2, 3, 4), [2, 2], [1, 1], [0, 0], [1, 1]), aten.col2im(y.reshape(1, 4, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1])]
        out += [aten.hstack([y, y[:, :2]]), aten.hstack([y[0], y[1]]), aten.dstack([y, y]), aten.index_fill.int_Scalar(y, 1, self.at[0], 0.5), aten.index_copy(y, 0, self.at[0], y[:3] * 2), aten.take(y, self.at), aten.take_along_dim(y, self.at), aten.vstack([y, y[0]]), aten.concat([y, y], 1), aten.ones_like(y) + aten.zeros_like(y) + aten.empty_like(y) * 0 + aten.full_like(y, 0.5)]
        out += [aten.full([2], 3) * y[:1, :2], aten.new_full(y, [2], 0.5) * y[:1, :2], aten.linspace(0, 1, 6) * y, aten.eye(4) @ y, aten.eye.m(3, 4) @ y, torch.arange(6) * y]
        return numbered(out)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.up1, self.up2 = nn.ConvTranspose1d(4, 6, 4, 2, 1, output_padding=1, groups=2), nn.ConvTranspose2d(4, 3, 3, 2, 1, bias=False)
        self.norm, self.rms = nn.InstanceNorm1d(4, affine=True), nn.RMSNorm(6)
        self.bag, self.sums, self.most = nn.EmbeddingBag(9, 3, mode="mean"), nn.EmbeddingBag(9, 3, mode="sum"), nn.EmbeddingBag(9, 3, mode="max", padding_idx=2)
        self.tanh, self.relu = nn.RNN(6, 3, bidirectional=True), nn.RNN(6, 3, 2, nonlinearity="relu", batch_first=True)
        self.cells = nn.ModuleList([nn.LSTMCell(6, 3), nn.GRUCell(6, 3), nn.RNNCell(6, 3), nn.RNNCell(6, 3, nonlinearity="relu", bias=False)])
        self.drop = nn.Dropout2d(0.0)
        self.frozen = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
        self.register_buffer("ids", torch.tensor([[1, 3, 8], [2, 2, 0]]), persistent=False)

    def train(self, mode=True):
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, x):  # [2,4,6]
        image = x[:, :, :, None] * x[:, :, None]
        y = self.norm(x)
        out = [self.frozen(x), aten.embedding_bag.padding_idx(self.bag.weight, torch.tensor([1, 2, 3, 4]), torch.tensor([0, 2, 4]), False, 0, False, None, True, None)[0], aten.embedding_bag.padding_idx(self.bag.weight, torch.tensor([1, self.bag.num_embeddings - 1, 3, 4]), torch.tensor([0, 2]), False, 1, False, None, False, -1)[0], self.up1(y), self.up2(image), self.rms(y), self.bag(self.ids), self.sums(self.ids.reshape(-1), torch.tensor([0, 1, 4])), self.most(self.ids), self.tanh(y)[0], *self.relu(y)]
        out += [*self.cells[0](y[0]), *(cell(y[0]) for cell in self.cells[1:]), self.drop(image), aten.feature_dropout_(image * 1, 0.0, True)]
        out += [F.max_pool1d(y, 3, 2, 1), F.avg_pool1d(y, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool1d(y, 4), F.adaptive_max_pool2d(image, (3, 2)), F.max_pool2d(image, 2, return_indices=True)[0]]
        out += [F.interpolate(y, scale_factor=1.5, mode="linear"), F.interpolate(y, 9, mode="nearest"), F.interpolate(image, scale_factor=2.0, mode="bicubic"), F.interpolate(image, 4, mode="nearest-exact")]
        theta = torch.tensor([[[0.75, 0.25, 0.125], [-0.25, 0.875, 0.375]], [[1.25, 0.125, -0.25], [0.375, 0.75, 0.25]]], dtype=x.dtype)
        grid = F.affine_grid(theta * y.mean().abs().clamp_min(0.5), [2, 4, 3, 5], align_corners=False)
        out += [grid, F.grid_sample(image, grid, align_corners=False), F.grid_sample(image, grid, padding_mode="reflection", align_corners=True)]
        return numbered(out)


class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.deep = nn.Conv3d(2, 4, 3, (1, 2, 1), 1, bias=False), nn.Conv3d(4, 6, (2, 1, 3), 1, (0, 0, 1), (2, 1, 1), 2)
        self.norm, self.drop = nn.BatchNorm3d(4), nn.Dropout3d(0.0)
        self.response = nn.LocalResponseNorm(3)

    def forward(self, x):  # [2,2,5,6,4]
        y = self.drop(F.relu(self.norm(self.conv(x))))
        out = [self.deep(y), F.max_pool3d(y, (3, 2, 2), 2, (1, 0, 0)), F.max_pool3d(y, 2, ceil_mode=True), F.avg_pool3d(y, (2, 3, 3), 1, (1, 0, 1)), F.avg_pool3d(y, 2, 2, 1, True, False)]
        return numbered([*out, F.adaptive_avg_pool3d(y, (2, 1, 3)), self.response(y[:, :, 0])])


class Spectra(nn.Module):
    """Eigenvalues, singular values and ranks; of vectors only what does not depend on their signs."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):  # [2,3,4]
        y = torch.tanh(x @ self.w)
        s, one = y @ y.transpose(-2, -1) + y[:, :, :3], y[:, :1] * y[:, :, :1]
        out = [aten.linalg_eigvalsh(s), aten.linalg_eigvalsh(s, "U"), aten.linalg_svdvals(y), aten.linalg_svdvals(y.transpose(-2, -1))]
        for values, vectors in (aten.linalg_eigh(s), aten.linalg_eigh(s, "U"), aten._linalg_eigh(s)):
            out += [values, (vectors * values[:, None].tanh()) @ vectors.transpose(-2, -1)]
        for u, values, vh in (aten.linalg_svd(y, False), aten._linalg_svd(y), aten.linalg_svd(s)):
            out += [values, u @ vh]
        fixed = torch.tensor([[4.0, 0, 0], [0, -2, 0], [0, 0, 0.5]]).expand(2, 3, 3)
        out += [aten.linalg_matrix_rank(y, 0.0), aten.linalg_matrix_rank(one, 1e-3), aten.linalg_matrix_rank.atol_rtol_float(fixed, atol=1.0), aten.linalg_matrix_rank.atol_rtol_float(fixed, rtol=0.25, hermitian=True)]
        out += [aten.linalg_matrix_rank.atol_rtol_tensor(y), aten.linalg_matrix_rank.tol_tensor(fixed, torch.tensor(3.0), True), aten.linalg_matrix_rank.atol_rtol_tensor(fixed, rtol=torch.tensor(0.75))]
        return numbered(out)


class Sizes(nn.Module):
    """Arithmetic with symbolic sizes."""

    def forward(self, x):
        n, m = x.shape
        return {"a": x * (n / m), "b": x * (-n), "e": x * x.numel()}
